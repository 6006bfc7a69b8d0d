package rules

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/internal/strictjson"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Part is one answer of a batch.
type Part struct {
	ID     string // the request's, never a place in the list: answers come in any order
	Status int
	Body   json.RawMessage // nil: there is none
	Ruling provider.Ruling
}

// Batch reads the answer to a $batch of Microsoft Graph, or of what has its form:
//
//	{"responses":[{"id":"1","status":429,"headers":{"Retry-After":"10"},"body":{}}]}
//
// and judges each part by rules, which may be nil. The whole is 200 when every
// part has failed, so a connector that reports the parts that are good has to
// name the others as missing. Parts that are wanted and not there, that come
// twice or that nobody asked for are PROVIDER_ERROR.
func Batch(r *provider.Response, rules provider.Rules, wanted ...string) (map[string]Part, error) {
	if _, err := strictjson.Parse(r.Body); err != nil {
		return nil, toolresult.WrapError(toolresult.ProviderError, "the provider's answer to a batch is not JSON that can be read in one way only", err)
	}
	var body struct {
		Responses []struct {
			ID      string            `json:"id"`
			Status  int               `json:"status"`
			Headers map[string]string `json:"headers"`
			Body    json.RawMessage   `json:"body"`
		} `json:"responses"`
	}
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return nil, toolresult.WrapError(toolresult.ProviderError, "the provider's answer to a batch does not have the expected form", err)
	}
	out := make(map[string]Part, len(wanted))
	for _, id := range wanted {
		out[id] = Part{}
	}
	for _, x := range body.Responses {
		if p, ok := out[x.ID]; !ok || p.ID != "" {
			return nil, toolresult.NewError(toolresult.ProviderError, "the answer to a batch holds a part twice, or one that nobody asked for")
		}
		h := http.Header{}
		for k, v := range x.Headers {
			h.Set(k, v)
		}
		inner := &provider.Response{Method: r.Method, Route: r.Route, Status: x.Status, Header: h, Body: x.Body}
		out[x.ID] = Part{x.ID, x.Status, x.Body, provider.Classify(rules, inner)}
	}
	for _, id := range wanted {
		if out[id].ID == "" {
			return nil, toolresult.NewError(toolresult.ProviderError, "the answer to a batch does not hold every part")
		}
	}
	return out, nil
}

// Bulk is for an answer with one status for each item, such as 207 or the
// "errors":true of a bulk request: it returns the rules that call the answer a
// failure if the array at the JSON Pointer holds an item whose status, at the
// pointer within the item, is not 2xx. What became of a change is then unknown:
// some items were applied. Without such an array the answer is a failure too.
// Other answers are left to rules, which may be nil.
func Bulk(rules provider.Rules, items, status string) provider.Rules {
	return func(r *provider.Response) (provider.Ruling, bool) {
		if r.Status/100 != 2 {
			return next(rules, r)
		}
		failed := provider.Ruling{Code: toolresult.ProviderError, ProviderCode: "partial"}
		body, err := strictjson.Parse(r.Body)
		list, _ := strictjson.Lookup(body, items)
		array, ok := list.([]any)
		if err != nil || !ok {
			return failed, true
		}
		for _, x := range array {
			v, _ := strictjson.Lookup(x, status)
			if n, err := strconv.Atoi(scalar(v)); err != nil || n/100 != 2 {
				failed.Text = "one of the items: " + scalar(v)
				return failed, true
			}
		}
		if v, ok := next(rules, r); ok {
			return v, true
		}
		return provider.Ruling{OK: true}, true
	}
}

func next(rules provider.Rules, r *provider.Response) (provider.Ruling, bool) {
	if rules == nil {
		return provider.Ruling{}, false
	}
	return rules(r)
}

// Holding adds to rules, which may be nil, that a 2xx answer to a route holds
// an array at a JSON Pointer. An answer without it is PROVIDER_ERROR and no
// empty page.
func Holding(rules provider.Rules, route, pointer string) provider.Rules {
	return func(r *provider.Response) (provider.Ruling, bool) {
		if v, ok := next(rules, r); ok {
			return v, ok
		}
		if r.Route != route || r.Status/100 != 2 {
			return provider.Ruling{}, false
		}
		body, err := strictjson.Parse(r.Body)
		v, _ := strictjson.Lookup(body, pointer)
		if _, ok := v.([]any); err != nil || !ok {
			return provider.Ruling{Code: toolresult.ProviderError}, true
		}
		return provider.Ruling{}, false
	}
}

func seconds(s string) time.Duration {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(n) * time.Second
}
