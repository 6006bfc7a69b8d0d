package check

import "testing"

// Whatever a recording holds, it is refused with a reason or can be served.
func FuzzRecording(f *testing.F) {
	f.Add([]byte(`{"schema":"connectortest/recording/v1","exchanges":[{"method":"GET","url":"/x","status":200,"body":"{}"}]}`))
	f.Add([]byte(`{"schema":"connectortest/recording/v1","exchanges":[{"status":-1}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decodeRecording(text)
		if (r == nil) == (err == nil) {
			t.Fatal("neither or both")
		}
		if err != nil {
			return
		}
		for _, x := range r.Exchanges {
			if x.Status < 200 || x.Status > 999 {
				t.Fatalf("status %d cannot be served", x.Status)
			}
		}
	})
}
