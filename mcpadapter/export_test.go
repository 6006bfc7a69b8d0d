package mcpadapter

// Long makes an adapter answer everything through the SDK.
func Long(a *Adapter) *Adapter { a.long = true; return a }

// Short reports whether a request with this body and these headers would be
// answered without the SDK, for tests that want to know what they tested.
func Short(a *Adapter, header map[string][]string, body []byte) bool {
	if !usualHeaders(header) {
		return false
	}
	p, ok := a.read(body)
	return ok && p.agrees(header)
}
