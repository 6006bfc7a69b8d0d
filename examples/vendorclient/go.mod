module github.com/drawbridge-sdk/drawbridge/examples/vendorclient

go 1.26.5

require (
	github.com/drawbridge-sdk/drawbridge v0.0.0
	github.com/google/go-github/v75 v75.0.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	github.com/google/go-querystring v1.1.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/gowebpki/jcs v1.0.2 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
)

replace github.com/drawbridge-sdk/drawbridge => ../..
