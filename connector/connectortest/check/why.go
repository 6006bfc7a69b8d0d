package check

import (
	"fmt"
	"strings"

	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// hints say where to look first when an ordinary call ends in a code.
var hints = map[toolresult.ErrorCode]string{
	toolresult.ConnectionRequired: "does the double accept what Token returns, where Info.Auth.Scheme puts it?",
	toolresult.NotFound:           "is what the sample names in the double, and shown to Alice?",
	toolresult.PermissionDenied:   "is what the sample names in the double, and shown to Alice?",
	toolresult.ApprovalInvalid:    "does Send make the same request each time? It may take ids and times from the operation, and not from a clock or a random source",
	toolresult.EgressDenied:       "does the request touch what the target names, and nothing else?",
}

// explain says what became of a call to whoever writes the connector: what the
// caller is told, and what is for operators only.
func (s *Session) explain(r *toolresult.Result) string {
	var b strings.Builder
	b.WriteString(s.Describe(r))
	e := r.Error
	if e == nil {
		return b.String()
	}
	if !strings.HasSuffix(b.String(), string(e.Message)) {
		fmt.Fprintf(&b, ": %s", string(e.Message))
	}
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "; %s %s", p.Pointer, p.Text)
	}
	if d := e.Diagnostics; d.HTTPStatus != 0 {
		fmt.Fprintf(&b, "; the provider answered %d", d.HTTPStatus)
	}
	if h := hints[e.Code]; h != "" && s.Violation(r) == "" {
		fmt.Fprintf(&b, " (%s)", h)
	}
	return s.run.redact(b.String())
}

// detail is the evidence of an ordinary call that does not work: what its error
// was about, for whoever wrote it, and the exchanges.
func (s *Session) detail(o *Ordinary) string {
	var b strings.Builder
	if r := o.Result; r != nil && r.Error != nil && r.Error.Cause() != nil && r.Error.Cause().Error() != r.Error.Error() {
		fmt.Fprintf(&b, "cause:   %s\n", r.Error.Cause())
	}
	if len(o.Sent) == 0 {
		b.WriteString("no request left the connector\n")
	}
	for _, x := range o.Sent {
		exchange(&b, 1, x)
	}
	return s.run.secretless(b.String())
}
