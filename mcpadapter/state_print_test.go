package mcpadapter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/mcpadapter"
)

// C2: the keys of request states are in nothing that is printed.
func TestStateKeysAreNotPrinted_C2(t *testing.T) {
	w := newWorld(t)
	key := []byte("CANARY-state-key-of-32-bytes-xyz")
	opts := mcpadapter.Options{StateKey: "a", StateKeys: map[string][]byte{"a": key}}
	a := w.adapter(t, as(w.alice), &opts)
	for _, v := range []any{opts, &opts, []any{opts}, a, struct{ in *mcpadapter.Adapter }{a}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
			text := fmt.Sprintf(verb, v)
			for _, spelled := range []string{string(key[:12]), fmt.Sprintf("%x", key[:12]), fmt.Sprint(key[:12])[1:20], fmt.Sprintf("%#v", key[:12])[8:30]} {
				require.NotContains(t, text, spelled, verb)
			}
		}
	}
}
