package mcpadapter

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/internal/aead"
)

// stateLife is how long a person has to answer.
const stateLife = 15 * time.Minute

// maxState bounds a requestState, in bytes: what has been answered travels in
// it.
const maxState = 64 << 10

// A state is what the adapter has to know when a request comes back with
// answers. It travels through the client, sealed, and is bound to who asked for
// what; see [binding].
type state struct {
	ID      string                     `json:"i"`           // is spent once
	Until   int64                      `json:"u"`           // Unix seconds
	Answers map[string]json.RawMessage `json:"a,omitempty"` // to the host's questions, in earlier rounds
	Asked   []string                   `json:"q,omitempty"` // what a person was sent to see, each once

	// The question that is out: an approval that the client's user may give.
	Approval string `json:"p,omitempty"`
	Digest   string `json:"d,omitempty"`
}

// A binding is what a state is good for. A state that comes back with another
// one is refused, whichever field differs.
type binding struct {
	who       authz.PrincipalKey
	method    string
	name      string // of the tool or prompt, or the URI
	arguments string // digest
	operation string // key of the change, as the call carries it
}

func (b binding) bytes() []byte {
	var out []byte
	for _, t := range []string{"drawbridge/mcp-state", b.who.Tenant, b.who.Issuer, b.who.Subject, b.method, b.name, b.arguments, b.operation} {
		out = append(append(strconv.AppendInt(out, int64(len(t)), 10), ':'), t...)
	}
	return out
}

// A SpentStore remembers which request states have been used, for all replicas
// that serve one URL. It is safe for concurrent use.
type SpentStore interface {
	// Spend records the id until the given time, after which no state with it
	// is valid. It reports whether this was the first time; on an error nobody
	// knows, and the state is refused.
	Spend(ctx context.Context, id string, until time.Time) (first bool, err error)
}

// states seals and opens states.
type states struct {
	current string
	keys    map[string]cipher.AEAD
	spent   SpentStore
}

func newStates(current string, keys map[string][]byte, spent SpentStore) (*states, error) {
	if len(keys) == 0 {
		if current != "" {
			return nil, errors.New("mcpadapter: Options.StateKey names a key, and Options.StateKeys has none")
		}
		key := make([]byte, aead.KeySize)
		_, _ = rand.Read(key) // it never fails
		current, keys = "own", map[string][]byte{"own": key}
	}
	ciphers, err := aead.Keys(current, keys)
	if err != nil {
		return nil, fmt.Errorf("mcpadapter: Options.StateKeys: %w", err)
	}
	if spent == nil {
		spent = &memorySpent{}
	}
	return &states{current, ciphers, spent}, nil
}

// seal gives the state an id and an end.
func (s *states) seal(b binding, st state) (string, error) {
	st.ID, st.Until = rand.Text(), time.Now().Add(stateLife).Unix()
	text, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	sealed := s.keys[s.current].Seal(nil, nil, text, b.bytes())
	if base64.RawURLEncoding.EncodedLen(len(sealed)) > maxState-64 {
		return "", errors.New("the answers are too long to be kept in a requestState")
	}
	return s.current + "." + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// open returns what a state holds and spends it. The error does not say what is
// wrong with it.
func (s *states) open(ctx context.Context, b binding, text string) (state, error) {
	id, body, _ := strings.Cut(text, ".")
	key := s.keys[id]
	if len(text) > maxState || key == nil {
		return state{}, badState()
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(sealed) < key.Overhead() {
		return state{}, badState()
	}
	plain, err := key.Open(nil, nil, sealed, b.bytes())
	var st state
	if err != nil || json.Unmarshal(plain, &st) != nil {
		return state{}, badState()
	}
	until := time.Unix(st.Until, 0)
	if !until.After(time.Now()) {
		return state{}, badState()
	}
	if first, err := s.spent.Spend(ctx, st.ID, until); err != nil || !first {
		return state{}, badState()
	}
	return st, nil
}

func badState() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams,
		Message: "this requestState is not valid for this request, or not any more; send the request again without it"}
}

// maxSpent bounds the states that are remembered. Each took a question of the
// adapter to get. When it is reached the store refuses until some are over.
const maxSpent = 1 << 17

// memorySpent is a SpentStore for one process.
type memorySpent struct {
	mu    sync.Mutex
	until map[string]time.Time
	swept time.Time
}

func (m *memorySpent) Spend(_ context.Context, id string, until time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.until == nil {
		m.until = map[string]time.Time{}
	}
	if len(m.until) >= maxSpent || now.Sub(m.swept) > time.Minute {
		for k, t := range m.until {
			if !t.After(now) {
				delete(m.until, k)
			}
		}
		m.swept = now
	}
	if len(m.until) >= maxSpent {
		return false, errors.New("mcpadapter: too many request states are remembered")
	}
	if _, there := m.until[id]; there {
		return false, nil
	}
	m.until[id] = until
	return true, nil
}
