// Package errorbody reads the errors of the small stores that were made for the
// example: {"error":{"code":"not_found","message":"..."}}.
package errorbody

import (
	"encoding/json"
	"net/http"

	"github.com/drawbridge-sdk/drawbridge/connector/provider"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Rules are provider.Rules. They go by the code in the body and not by the
// message, and leave an answer without such a body to the rules of HTTP.
func Rules(r *provider.Response) (provider.Ruling, bool) {
	var body struct {
		Error struct{ Code, Message string }
	}
	if r.Status < http.StatusBadRequest || json.Unmarshal(r.Body, &body) != nil {
		return provider.Ruling{}, false
	}
	code, known := map[string]toolresult.ErrorCode{
		"bad_request": toolresult.InvalidInput, "unauthorized": toolresult.ConnectionRequired, "not_found": toolresult.NotFound,
	}[body.Error.Code]
	return provider.Ruling{Code: code, ProviderCode: body.Error.Code, Text: body.Error.Message}, known
}
