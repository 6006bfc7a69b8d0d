package metrics

import (
	"encoding/json"
	"math"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// answer is the provider's.
type answer struct {
	Warnings []string
	Data     struct {
		Result []struct {
			Metric map[string]string
			Values [][2]json.RawMessage // seconds since 1970 as a number, value as a string
		}
	}
}

func (a *answer) series() ([]Series, error) {
	out := make([]Series, len(a.Data.Result))
	for i, r := range a.Data.Result {
		out[i] = Series{Labels: r.Metric, Points: make([]Point, len(r.Values))}
		for j, v := range r.Values {
			p, err := point(v)
			if err != nil {
				return nil, toolresult.WrapError(toolresult.ProviderError, "the provider's points do not have the expected form", err)
			}
			out[i].Points[j] = p
		}
	}
	return out, nil
}

func point(v [2]json.RawMessage) (p Point, err error) {
	var seconds float64
	if err := json.Unmarshal(v[0], &seconds); err != nil {
		return p, err
	}
	p.At = time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
	return p, json.Unmarshal(v[1], &p.Value)
}

// missing says what is not there. From version 3 on, a limit that was reached
// is a warning; before, the server does not know it, and the cut is ours.
func (a *answer) missing(limit int) []toolresult.Gap {
	n := len(a.Data.Result)
	switch {
	case n > limit, n == limit && len(a.Warnings) > 0:
		return []toolresult.Gap{toolresult.GapRemainingRows}
	case len(a.Warnings) > 0:
		return []toolresult.Gap{toolresult.GapProviderPartial}
	}
	return nil
}

// rules go by errorType: the texts differ between versions.
func rules(r *provider.Response) (provider.Ruling, bool) {
	var body struct{ Status, ErrorType, Error string }
	if json.Unmarshal(r.Body, &body) != nil || body.Status != "error" {
		return provider.Ruling{}, false
	}
	v := provider.Ruling{ProviderCode: body.ErrorType, Text: body.Error, Code: toolresult.ProviderError}
	switch body.ErrorType {
	case "bad_data":
		v.Code = toolresult.InvalidInput
	case "execution":
		v.Code = toolresult.ResultTooLarge // too many samples, or series that cannot be joined
	case "timeout":
		v.Code = toolresult.Timeout
	case "canceled", "unavailable":
		v.Code = toolresult.ProviderUnavailable
	case "not_found":
		v.Code = toolresult.NotFound
	}
	return v, true
}
