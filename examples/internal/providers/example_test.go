package providers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
)

func ExampleNewPrometheus() {
	server := httptest.NewServer(NewPrometheus(nil))
	defer server.Close()
	query := url.Values{"query": {`service:http_request_duration_seconds:p95{namespace="prod",service="order-service"}`}, "time": {"2026-04-29T02:38:00Z"}}
	resp, err := http.Get(server.URL + "/api/v1/query?" + query.Encode())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output:
	// {"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"service:http_request_duration_seconds:p95","namespace":"prod","service":"order-service"},"value":[1777430280,"2.1"]}]}}
}
