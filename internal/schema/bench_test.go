package schema

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

const benchArgs = `{"query":"disk full","state":"open","count":25,"since":"2026-04-29T02:35:00Z","tags":["urgent","db"],"labels":{"team":"sre"},"filters":[{"field":"age","value":3.5},{"field":"size","value":10}]}`

func BenchmarkPrepare(b *testing.B) {
	s, err := inputOf[search]([]byte(searchOverlay))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("strict, valid, filled, canonical", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Prepare(json.RawMessage(benchArgs)); err != nil {
				b.Fatal(err)
			}
		}
	})
	var js jsonschema.Schema
	if err := json.Unmarshal(s.JSON(), &js); err != nil {
		b.Fatal(err)
	}
	rs, err := js.Resolve(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("json.Unmarshal and jsonschema-go", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var v any
			if err := json.Unmarshal([]byte(benchArgs), &v); err != nil {
				b.Fatal(err)
			}
			if err := rs.Validate(v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("refused", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := s.Prepare(json.RawMessage(`{"query":"disk full","count":51}`)); err == nil {
				b.Fatal("accepted")
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	s, err := inputOf[search]([]byte(searchOverlay))
	if err != nil {
		b.Fatal(err)
	}
	args, err := s.Prepare(json.RawMessage(benchArgs))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("exact", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var in search
			if err := Decode(args, &in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("json.Unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var in search
			if err := json.Unmarshal(args, &in); err != nil {
				b.Fatal(err)
			}
		}
	})
}
