package reads

import (
	"encoding/json"
	"maps"
	"slices"
)

// distortions make odd answers of ordinary ones.
var distortions = [...]func([]byte) []byte{
	func([]byte) []byte { return []byte(`null`) },
	func([]byte) []byte { return []byte(`[]`) },
	func([]byte) []byte { return []byte(`{}`) },
	func([]byte) []byte { return []byte(`"text"`) },
	func([]byte) []byte { return []byte(`[null,null]`) },
	members(func(any) any { return nil }),
	members(func(any) any { return "odd" }),
	members(func(any) any { return -1 }),
	members(func(any) any { return []any{} }),
	members(func(any) any { return map[string]any{} }),
	members(func(any) any { return []any{nil} }),
	members(func(any) any { return gone }),
	inItems(func(any) any { return nil }),
	inItems(func(any) any { return map[string]any{} }),
	inItems(func(any) any { return gone }),
}

var gone = new(int)

// members changes every member of an answer that is an object.
func members(f func(any) any) func([]byte) []byte {
	return func(body []byte) []byte {
		m, ok := parse(body).(map[string]any)
		if !ok {
			return body
		}
		return written(change(m, f))
	}
}

// inItems changes every member of every item of every list in an answer.
func inItems(f func(any) any) func([]byte) []byte {
	return func(body []byte) []byte {
		v := parse(body)
		lists := [][]any{}
		if l, ok := v.([]any); ok {
			lists = append(lists, l)
		}
		if m, ok := v.(map[string]any); ok {
			for _, k := range slices.Sorted(maps.Keys(m)) {
				if l, ok := m[k].([]any); ok {
					lists = append(lists, l)
				}
			}
		}
		for _, l := range lists {
			for i, e := range l {
				if m, ok := e.(map[string]any); ok {
					l[i] = change(m, f)
				}
			}
		}
		return written(v)
	}
}

func change(m map[string]any, f func(any) any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if n := f(v); n != any(gone) {
			out[k] = n
		}
	}
	return out
}

func written(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(`null`)
	}
	return text
}
