package sqlstore_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/operation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const canary = "canary-4f1c9e"

func record(id string) operation.Record {
	return operation.Record{
		Operation: operation.Operation{ID: id, Key: "key of " + id, PreparedAt: time.Now()}, State: operation.Prepared, Intent: "intent of " + id, Holder: "run-1",
		Arguments: json.RawMessage(`{"card":"` + canary + `"}`), Output: json.RawMessage(`{"secret":"` + canary + `"}`),
		Binding: authz.Binding{Digest: "sha256:in-clear", Requester: authz.PrincipalKey{Tenant: "t", Issuer: "i", Subject: "s"}},
	}
}

func testSealed_R10(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	s := p.open(t, nil)
	_, err := s.Create(t.Context(), record("op1"))
	require.NoError(t, err)
	two, err := s.Create(t.Context(), record("op2"))
	require.NoError(t, err)
	meta := newMeta("c1")
	require.NoError(t, s.Artifacts().Put(t.Context(), meta, strings.NewReader(canary), 100))

	for _, ask := range []string{"SELECT arguments FROM drawbridge_operations", "SELECT output FROM drawbridge_operations", "SELECT bytes FROM drawbridge_artifact_chunks"} {
		var b []byte
		require.NoError(t, p.db(t).QueryRow(ask).Scan(&b))
		require.NotContains(t, string(b), canary, ask)
	}
	var digest string
	require.NoError(t, p.db(t).QueryRow("SELECT digest FROM drawbridge_operations").Scan(&digest))
	require.Equal(t, "sha256:in-clear", digest, "operators look for it")

	t.Run("a text moved to another record, column or tenant is not read", func(t *testing.T) {
		for _, change := range []string{
			"UPDATE drawbridge_operations SET arguments = (SELECT arguments FROM drawbridge_operations WHERE id = 'op2') WHERE id = 'op1'",
			"UPDATE drawbridge_operations SET arguments = output WHERE id = 'op1'",
		} {
			p.exec(t, change)
			got, err := s.Get(t.Context(), "t", "op1")
			require.ErrorIs(t, err, toolresult.Internal)
			require.Zero(t, got)
			require.NotContains(t, err.Error(), canary)
			_, err = s.Create(t.Context(), record("op1"))
			require.ErrorIs(t, err, toolresult.Internal, "and its key is not taken for free")
		}
		p.exec(t, "UPDATE drawbridge_operations SET tenant = 'u' WHERE id = 'op2'")
		_, err := s.Get(t.Context(), "u", "op2")
		require.ErrorIs(t, err, toolresult.Internal)
		p.exec(t, "UPDATE drawbridge_operations SET tenant = 't' WHERE id = 'op2'")
	})
	t.Run("one that cannot be read does not hide the others", func(t *testing.T) {
		two.State = operation.Unknown
		_, err := s.CompareAndSwap(t.Context(), two)
		require.NoError(t, err)
		p.exec(t, "UPDATE drawbridge_operations SET state = 'unknown' WHERE id = 'op1'")
		found, err := s.Unsettled(t.Context(), time.Now(), 10)
		require.ErrorIs(t, err, toolresult.Internal)
		require.Len(t, found, 1)
		require.Equal(t, "op2", found[0].ID)
	})
	t.Run("a text that somebody wrote into the table is not read", func(t *testing.T) {
		p.exec(t, "UPDATE drawbridge_operations SET output = $1 WHERE id = 'op2'", []byte(`p{"id":"forged"}`))
		_, err := s.Get(t.Context(), "t", "op2")
		require.ErrorIs(t, err, toolresult.Internal)
	})
}

func testKeysRotate_C2(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	_, err := p.open(t, plaintext).Create(t.Context(), record("plain"))
	require.NoError(t, err)
	old := p.open(t, &sqlstore.Options{Seal: keyring(t, "a", "a")})
	_, err = old.Create(t.Context(), record("op"))
	require.NoError(t, err)
	_, err = old.Get(t.Context(), "t", "plain")
	require.ErrorIs(t, err, toolresult.Internal, "what is not sealed is not believed")

	both := p.open(t, &sqlstore.Options{Seal: keyring(t, "b", "a", "b"), Plaintext: true})
	for _, id := range []string{"op", "plain"} {
		r, err := both.Get(t.Context(), "t", id)
		require.NoError(t, err, "the old key opens it, and Plaintext what has none")
		require.Contains(t, string(r.Arguments), canary)
		_, err = both.CompareAndSwap(t.Context(), r) // seals it again
		require.NoError(t, err)
		_, err = p.open(t, &sqlstore.Options{Seal: keyring(t, "b", "b")}).Get(t.Context(), "t", id)
		require.NoError(t, err, "the old key may go")
		_, err = old.Get(t.Context(), "t", id)
		require.ErrorIs(t, err, toolresult.Internal, "a replica without the new key")
		_, err = old.Create(t.Context(), record(id))
		require.NotErrorIs(t, err, operation.ErrExists, "it does not pretend to know the record")
		require.Error(t, err)
	}
	_, err = p.open(t, plaintext).Get(t.Context(), "t", "op")
	require.ErrorIs(t, err, toolresult.Internal, "nor without any")
}

func testHistory_W2(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	s := p.open(t, nil)
	before := time.Now()
	r, err := s.Create(t.Context(), record("op"))
	require.NoError(t, err)
	for _, state := range []operation.State{operation.Dispatched, operation.Unknown, operation.Unknown, operation.Resolved} {
		r.State, r.Code, r.Holder = state, toolresult.OutcomeUnknown, "run-2"
		if state == operation.Resolved {
			r.Resolution, r.SettledBy, r.Holder = operation.Applied, "person:boss", ""
		}
		r, err = s.CompareAndSwap(t.Context(), r)
		require.NoError(t, err)
	}
	r.Rev = 1
	_, err = s.CompareAndSwap(t.Context(), r)
	require.ErrorIs(t, err, operation.ErrVersion, "what did not happen is not in the history")

	list, err := s.History(t.Context(), "t", "op")
	require.NoError(t, err)
	for i := range list {
		require.False(t, list[i].At.Before(before))
		require.Equal(t, time.UTC, list[i].At.Location())
		before, list[i].At = list[i].At, time.Time{}
	}
	require.Equal(t, []sqlstore.Entry{
		{Rev: 1, State: operation.Prepared, By: "run-1"},
		{Rev: 2, State: operation.Dispatched, Code: toolresult.OutcomeUnknown, By: "run-2"},
		{Rev: 3, State: operation.Unknown, Code: toolresult.OutcomeUnknown, By: "run-2"},
		{Rev: 4, State: operation.Unknown, Code: toolresult.OutcomeUnknown, By: "run-2"},
		{Rev: 5, State: operation.Resolved, Resolution: operation.Applied, Code: toolresult.OutcomeUnknown, By: "person:boss"},
	}, list)
	for _, tenant := range []string{"u", ""} {
		_, err = s.History(t.Context(), tenant, "op")
		require.ErrorIs(t, err, toolresult.NotFound)
	}

	// A version without its row of history does not exist.
	p.exec(t, "ALTER TABLE drawbridge_operation_history RENAME TO elsewhere")
	_, err = s.Create(t.Context(), record("op2"))
	require.Error(t, err)
	r.Rev = 5
	_, err = s.CompareAndSwap(t.Context(), r)
	require.Error(t, err)
	p.exec(t, "ALTER TABLE elsewhere RENAME TO drawbridge_operation_history")
	_, err = s.Get(t.Context(), "t", "op2")
	require.ErrorIs(t, err, toolresult.NotFound)
	got, err := s.Get(t.Context(), "t", "op")
	require.NoError(t, err)
	require.EqualValues(t, 5, got.Rev)
}

func TestTimesThatDoNotFit(t *testing.T) {
	p := newSQLite(t)
	s := p.open(t, nil)
	for _, at := range []time.Time{time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, -1<<63)} {
		r := record("op")
		r.Until = at
		_, err := s.Create(t.Context(), r)
		require.ErrorIs(t, err, toolresult.Internal)
		_, err = s.Get(t.Context(), "t", "op")
		require.ErrorIs(t, err, toolresult.NotFound)
		_, err = s.Unsettled(t.Context(), at, 1)
		require.ErrorIs(t, err, toolresult.Internal)
	}
}

func newMeta(connection string) *artifact.Meta {
	return &artifact.Meta{
		Ref: artifact.Ref{Run: "run-1", Name: "n"}, Tenant: "t", Connection: connection, Expires: time.Now().Add(time.Hour),
		Owner: authz.PrincipalKey{Tenant: "t", Issuer: "i", Subject: "s"},
		Scope: authz.OnlyDuring(authz.Resource{ResourceID: authz.ResourceID{Type: "service", ID: "order"}, Window: toolresult.Interval{Start: time.Unix(1, 1), End: time.Unix(2, 2)}}),
	}
}

func testChunks_R8(t *testing.T, fresh func(t testing.TB) place) {
	p := fresh(t)
	a := p.open(t, nil).Artifacts()
	read := func(m *artifact.Meta) (string, error) {
		got, body, err := a.Open(t.Context(), "t", m.Ref)
		require.NoError(t, err)
		require.Equal(t, m.Scope.Digest(), got.Scope.Digest(), "the scope and its windows decide who may read")
		defer body.Close()
		b, err := io.ReadAll(body)
		return string(b), err
	}
	put := func(n int) (*artifact.Meta, string) {
		text := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		m := newMeta("c1")
		require.NoError(t, a.Put(t.Context(), m, iotest.HalfReader(strings.NewReader(text)), int64(n)))
		return m, text
	}
	const chunk = 64 << 10
	for _, n := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3*chunk + 7} {
		m, text := put(n)
		got, err := read(m)
		require.NoError(t, err)
		require.Equal(t, text, got)
		require.ErrorIs(t, a.Put(t.Context(), newMeta("c1"), strings.NewReader(text+"x"), int64(n)), toolresult.ResultTooLarge)
	}
	count := func() (n int) {
		require.NoError(t, p.db(t).QueryRow("SELECT count(*) FROM drawbridge_artifact_chunks").Scan(&n))
		return n
	}
	before := count()
	err := a.Put(t.Context(), newMeta("c1"), io.MultiReader(strings.NewReader(strings.Repeat("x", 5*chunk)), iotest.ErrReader(errors.New("cut"))), 1<<30)
	require.Error(t, err)
	require.Equal(t, before, count(), "nothing is left of what could not be read")

	for why, damage := range map[string]string{
		"a chunk is gone":        "DELETE FROM drawbridge_artifact_chunks WHERE n = 1 AND blob_id IN (SELECT blob_id FROM drawbridge_artifacts WHERE n = $1)",
		"a chunk in two places":  "UPDATE drawbridge_artifact_chunks SET bytes = (SELECT c.bytes FROM drawbridge_artifact_chunks c WHERE c.blob_id = drawbridge_artifact_chunks.blob_id AND c.n = 0) WHERE n = 1 AND blob_id IN (SELECT blob_id FROM drawbridge_artifacts WHERE n = $1)",
		"another size":           "UPDATE drawbridge_artifacts SET size = size - 1 WHERE n = $1",
		"another digest":         "UPDATE drawbridge_artifacts SET digest = 'sha256:0' WHERE n = $1",
		"a chunk that is longer": "UPDATE drawbridge_artifact_chunks SET bytes = bytes || bytes WHERE n = 1 AND blob_id IN (SELECT blob_id FROM drawbridge_artifacts WHERE n = $1)",
	} {
		if strings.Contains(damage, "||") && p.dialect == sqlstore.SQLite {
			continue // || makes a text there, which a strict table refuses
		}
		m, text := put(2*chunk + 5)
		p.exec(t, damage, m.Ref.N)
		got, err := read(m)
		require.ErrorIs(t, err, artifact.ErrDigest, why)
		require.True(t, strings.HasPrefix(text, got), "what was read before is what was stored")
	}
	m, _ := put(10)
	other := p.open(t, &sqlstore.Options{Seal: keyring(t, "b", "b")}).Artifacts()
	_, body, err := other.Open(t.Context(), "t", m.Ref)
	require.NoError(t, err)
	_, err = io.ReadAll(body)
	require.NotErrorIs(t, err, artifact.ErrDigest, "a missing key is no damage")
	require.Error(t, err)

	require.NoError(t, a.Purge(t.Context(), "t", "c1"))
	require.Zero(t, count(), "purging leaves no bytes")
	put(3 * chunk)
	p.exec(t, "DELETE FROM drawbridge_artifacts") // as if the process had died before the end
	put(0)
	require.Equal(t, 4, count(), "it may still be under way")
	p.exec(t, "UPDATE drawbridge_artifact_chunks SET stored = stored - $1", int64(25*time.Hour))
	put(0)
	require.Equal(t, 2, count(), "it is not any more")
}

func TestMetaThatCannotBeKept_R8(t *testing.T) {
	a := newSQLite(t).open(t, nil).Artifacts()
	for why, change := range map[string]func(*artifact.Meta){
		"a scope that is not UTF-8":            func(m *artifact.Meta) { m.Scope = authz.Only(authz.ResourceID{Type: "x", ID: "\xff"}) },
		"an owner that is not UTF-8":           func(m *artifact.Meta) { m.Owner.Subject = "\xff" },
		"an end that no database can remember": func(m *artifact.Meta) { m.Expires = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		m := newMeta("c1")
		change(m)
		require.ErrorIs(t, a.Put(t.Context(), m, strings.NewReader("x"), 1), artifact.ErrMeta, why)
	}
}

// In the file itself, with its log, nothing private is found.
func TestFileHoldsNothingPrivate_R10(t *testing.T) {
	dir := t.TempDir()
	p := place{sqlstore.SQLite, "sqlite", sqlstore.SQLiteDSN(dir + "/x.db")}
	s := p.open(t, nil)
	_, err := s.Create(t.Context(), record("op1"))
	require.NoError(t, err)
	require.NoError(t, s.Artifacts().Put(t.Context(), newMeta("c1"), strings.NewReader(canary), 100))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	seen := ""
	for _, f := range files {
		b, err := os.ReadFile(dir + "/" + f.Name())
		require.NoError(t, err)
		seen += string(b)
	}
	require.Contains(t, seen, "sha256:in-clear", "control: this is where it would be")
	require.NotContains(t, seen, canary)
}

var _ sqlstore.Sealer = (*credential.Keyring)(nil)
