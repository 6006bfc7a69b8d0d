package bearer

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// MetadataPath is the path at which clients look for the metadata: the
// well-known segment before the path of the resource.
func (b *Bearer) MetadataPath() string { return b.path }

// MetadataURL is the same on the resource's host; challenges name it.
func (b *Bearer) MetadataURL() string { return b.challenge }

// document is the metadata of RFC 9728, section 2.
func (b *Bearer) document(issuers []string) ([]byte, error) {
	doc := struct {
		Resource      string   `json:"resource"`
		Servers       []string `json:"authorization_servers"`
		Scopes        []string `json:"scopes_supported,omitempty"`
		Methods       []string `json:"bearer_methods_supported"`
		Name          string   `json:"resource_name,omitempty"`
		Documentation string   `json:"resource_documentation,omitempty"`
	}{b.resource, issuers, b.opts.ScopesSupported, []string{"header"}, b.opts.DisplayName, b.opts.Documentation}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(doc)
	return text.Bytes(), err
}

// Metadata serves the metadata (RFC 9728), which is for everybody, pages of
// other origins included. It belongs at [Bearer.MetadataPath], outside of
// [Bearer.Handler]:
//
//	mux.Handle(b.MetadataPath(), b.Metadata())
//	mux.Handle("/mcp", b.Handler(server))
//
// It answers at that path only, wherever it is mounted.
func (b *Bearer) Metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case b.path == "" || r.URL.Path != b.path:
			http.NotFound(w, r)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is served", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(b.metadata)
	})
}
