package route

import (
	"net/http"
	"testing"
)

func BenchmarkMatch(b *testing.B) {
	tab := table(b, append(tickets, metrics...)...)
	conn := map[string]string{"account": "acme"}
	for _, row := range []struct {
		name string
		req  Request
	}{
		{"path", Request{Method: "GET", Path: "/repos/o/r/issues/7"}},
		{"query", Request{Method: "GET", Path: "/issues.json", Query: "project_id=inc&limit=5&offset=20"}},
		{"body", Request{Method: "POST", Path: "/issues.json", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"issue":{"project_id":"inc","subject":"x"}}`)}},
		{"promql", Request{Method: "GET", Path: "/api/v1/query_range", Query: "query=sum(rate(http_requests_total%7Bnamespace%3D%22prod%22%2Cservice%3D%22orders%22%7D%5B1m%5D))&start=1700000000&end=1700000900&step=15"}},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tab.Match(&row.req, conn); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
