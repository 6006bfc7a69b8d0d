package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz"
	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/ingest"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Index is an ingest.Index on a database. Titles and texts are sealed; what they
// can be found by are digests of their words, and readers and ids are in clear.
// It is safe for concurrent use by any number of goroutines and processes.
type Index struct{ d *database }

var _ ingest.Index = (*Index)(nil)

// Index returns the ingest.Index on the same database.
func (s *Store) Index() *Index { return &Index{s.d} }

const (
	ofFeed   = " WHERE tenant = ? AND connection = ? AND feed = ?"
	ofObject = ofFeed + " AND type = ? AND id = ?"

	feedColumns   = "rev, watermark, window_end, cursor_at, walk, walk_at, walked"
	objectColumns = "type, id, state, version, access_version, applied, met, title, body"
)

func feedArgs(f ingest.Feed, more ...any) []any {
	return append([]any{column.Text(f.Tenant), column.Text(f.Connection), column.Text(f.Name)}, more...)
}

func objectArgs(f ingest.Feed, id authz.ResourceID, more ...any) []any {
	return feedArgs(f, append([]any{column.Text(id.Type), column.Text(id.ID)}, more...)...)
}

// Checkpoint implements [ingest.Index].
func (x *Index) Checkpoint(ctx context.Context, f ingest.Feed) (ingest.Checkpoint, error) {
	cp, err := x.checkpoint(ctx, x.d.db, f, "")
	return cp, failure(ctx, err)
}

func (x *Index) checkpoint(ctx context.Context, q querier, f ingest.Feed, lock string) (cp ingest.Checkpoint, err error) {
	err = q.QueryRowContext(ctx, x.d.bind("SELECT "+feedColumns+" FROM drawbridge_index_feeds"+ofFeed+lock), feedArgs(f)...).
		Scan(&cp.Rev, timeColumn{&cp.Watermark}, timeColumn{&cp.End}, textColumn{&cp.Cursor}, timeColumn{&cp.Walk}, textColumn{&cp.WalkCursor}, timeColumn{&cp.Walked})
	if errors.Is(err, sql.ErrNoRows) {
		return ingest.Checkpoint{}, nil
	}
	return cp, err
}

// Apply implements [ingest.Index]. The row of the feed is locked meanwhile, so
// that batches follow each other.
func (x *Index) Apply(ctx context.Context, f ingest.Feed, b *ingest.Batch) (changed []authz.ResourceID, err error) {
	var refused error
	err = x.d.write(ctx, func(q querier) error {
		changed, refused = nil, nil
		none := column.NoTime
		if _, err := q.ExecContext(ctx, x.d.bind("INSERT INTO drawbridge_index_feeds (tenant, connection, feed, "+feedColumns+") VALUES (?, ?, ?, 0, ?, ?, '', ?, '', ?) ON CONFLICT DO NOTHING"),
			feedArgs(f, int64(none), int64(none), int64(none), int64(none))...); err != nil {
			return err
		}
		lock := ""
		if x.d.dialect == PostgreSQL { // SQLite has locked the file
			lock = " FOR UPDATE"
		}
		was, err := x.checkpoint(ctx, q, f, lock)
		if err != nil {
			return err
		}
		if b.Next != nil && b.Next.Rev != was.Rev {
			refused = ingest.ErrVersion
			return refused
		}
		for i := range b.Items {
			it := &b.Items[i]
			r, err := x.record(ctx, q, f, it.Object)
			if err != nil {
				return err
			}
			next, ok := r.Merge(it, b.At, b.Walk)
			if ok && !slices.Contains(changed, it.Object) {
				changed = append(changed, it.Object)
			}
			if err := x.put(ctx, q, f, r, next); err != nil {
				return err
			}
		}
		if b.Absent {
			gone, err := x.absent(ctx, q, f, b)
			if refused = err; err != nil {
				return err
			}
			changed = append(changed, gone...)
		}
		return x.move(ctx, q, f, b.Next)
	})
	if errors.Is(refused, ingest.ErrVersion) || errors.Is(refused, ingest.ErrTooManyAbsent) {
		return nil, refused
	}
	if err != nil {
		return nil, failure(ctx, err)
	}
	return changed, nil
}

func (x *Index) move(ctx context.Context, q querier, f ingest.Feed, cp *ingest.Checkpoint) error {
	if cp == nil {
		return nil
	}
	var errs [4]error
	var times [4]int64
	for i, at := range []time.Time{cp.Watermark, cp.End, cp.Walk, cp.Walked} {
		times[i], errs[i] = column.Instant(at)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	args := append([]any{cp.Rev + 1, times[0], times[1], column.Text(cp.Cursor), times[2], column.Text(cp.WalkCursor), times[3]}, feedArgs(f)...)
	_, err := q.ExecContext(ctx, x.d.bind("UPDATE drawbridge_index_feeds SET rev = ?, watermark = ?, window_end = ?, cursor_at = ?, walk = ?, walk_at = ?, walked = ?"+ofFeed), args...)
	return err
}

// absent marks what a whole walk has not met.
func (x *Index) absent(ctx context.Context, q querier, f ingest.Feed, b *ingest.Batch) ([]authz.ResourceID, error) {
	walk, err := column.Instant(b.Walk)
	if err != nil {
		return nil, err
	}
	var live int
	if err := q.QueryRowContext(ctx, x.d.bind("SELECT count(*) FROM drawbridge_index_objects"+ofFeed+" AND state = 'live'"), feedArgs(f)...).Scan(&live); err != nil {
		return nil, err
	}
	ids, err := x.ids(ctx, q, "SELECT type, id FROM drawbridge_index_objects"+ofFeed+" AND state = 'live' AND met < ? AND applied < ?", feedArgs(f, walk, walk))
	if err != nil {
		return nil, err
	}
	if b.TooMany(len(ids), live) {
		return nil, ingest.ErrTooManyAbsent
	}
	for _, id := range ids {
		r, err := x.record(ctx, q, f, id)
		if err != nil {
			return nil, err
		}
		next, _ := r.Absentee(b.Walk, b.At)
		if err := x.put(ctx, q, f, r, next); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func (x *Index) ids(ctx context.Context, q querier, statement string, args []any) (out []authz.ResourceID, err error) {
	rows, err := q.QueryContext(ctx, x.d.bind(statement), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id authz.ResourceID
		if err := rows.Scan(textColumn{&id.Type}, textColumn{&id.ID}); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

func objectPlace(f ingest.Feed, id authz.ResourceID, field string) credential.Place {
	return credential.Place{Tenant: f.Tenant, Record: "index " + strings.Join([]string{column.Text(f.Connection), column.Text(f.Name), column.Text(id.Type), id.ID}, "\n"), Field: field}
}

var indexStates = [...]string{ingest.Absent: "absent", ingest.Live: "live", ingest.Deleted: "deleted"}

// record returns an object's, or a zero one.
func (x *Index) record(ctx context.Context, q querier, f ingest.Feed, id authz.ResourceID) (ingest.Record, error) {
	r, err := x.scan(q.QueryRowContext(ctx, x.d.bind("SELECT "+objectColumns+" FROM drawbridge_index_objects"+ofObject), objectArgs(f, id)...), f)
	if errors.Is(err, sql.ErrNoRows) {
		return ingest.Record{}, nil
	}
	if err == nil {
		err = x.readers(ctx, q, f, &r)
	}
	return r, err
}

func (x *Index) scan(row interface{ Scan(...any) error }, f ingest.Feed) (r ingest.Record, err error) {
	var state string
	var title, body []byte
	if err := row.Scan(textColumn{&r.Object.Type}, textColumn{&r.Object.ID}, textColumn{&state}, &r.Version, &r.AccessVersion, timeColumn{&r.Applied}, timeColumn{&r.Met}, &title, &body); err != nil {
		return r, err
	}
	r.State = ingest.State(max(0, slices.Index(indexStates[:], state))) // a word that nobody knows is absent
	title, err1 := x.d.unlock(objectPlace(f, r.Object, "title"), title)
	body, err2 := x.d.unlock(objectPlace(f, r.Object, "body"), body)
	r.Title, r.Text = string(title), string(body)
	return r, errors.Join(err1, err2)
}

func (x *Index) readers(ctx context.Context, q querier, f ingest.Feed, r *ingest.Record) error {
	rows, err := q.QueryContext(ctx, x.d.bind("SELECT reader FROM drawbridge_index_readers"+ofObject+" ORDER BY reader"), objectArgs(f, r.Object)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var reader string
		if err := rows.Scan(textColumn{&reader}); err != nil {
			return err
		}
		r.Readers = append(r.Readers, reader)
	}
	slices.Sort(r.Readers)
	return rows.Err()
}

// put stores a record, and of its readers and words what is not there yet.
func (x *Index) put(ctx context.Context, q querier, f ingest.Feed, was, r ingest.Record) error {
	applied, err1 := column.Instant(r.Applied)
	met, err2 := column.Instant(r.Met)
	var title, body []byte
	var err3, err4 error
	if r.State == ingest.Live {
		title, err3 = x.d.lock(objectPlace(f, r.Object, "title"), []byte(r.Title))
		body, err4 = x.d.lock(objectPlace(f, r.Object, "body"), []byte(r.Text))
	}
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	state := indexStates[min(int(r.State), len(indexStates)-1)]
	_, err := q.ExecContext(ctx, x.d.bind("INSERT INTO drawbridge_index_objects (tenant, connection, feed, "+objectColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "+
		"ON CONFLICT (tenant, connection, feed, type, id) DO UPDATE SET state = excluded.state, version = excluded.version, access_version = excluded.access_version, "+
		"applied = excluded.applied, met = excluded.met, title = excluded.title, body = excluded.body"),
		objectArgs(f, r.Object, state, r.Version, r.AccessVersion, applied, met, title, body)...)
	if err != nil {
		return err
	}
	if err := x.replace(ctx, q, f, r.Object, "drawbridge_index_readers", "reader", was.Readers, r.Readers, column.Text); err != nil {
		return err
	}
	return x.replace(ctx, q, f, r.Object, "drawbridge_index_words", "word", wordsOf(was), wordsOf(r), digestOf(f))
}

func wordsOf(r ingest.Record) []string {
	if r.State != ingest.Live {
		return nil
	}
	return ingest.Words(r.Title + "\n" + r.Text)
}

// digestOf returns what stands for a word in the database: another text in each
// feed.
func digestOf(f ingest.Feed) func(string) string {
	return func(word string) string {
		sum := sha256.Sum256([]byte(strings.Join([]string{"drawbridge word", column.Text(f.Tenant), column.Text(f.Connection), column.Text(f.Name), word}, "\x00")))
		return hex.EncodeToString(sum[:16])
	}
}

// replace makes the rows of an object in a table those of a list.
func (x *Index) replace(ctx context.Context, q querier, f ingest.Feed, id authz.ResourceID, table, name string, was, now []string, write func(string) string) error {
	if slices.Equal(was, now) {
		return nil
	}
	if len(was) > 0 {
		if _, err := q.ExecContext(ctx, x.d.bind("DELETE FROM "+table+ofObject), objectArgs(f, id)...); err != nil {
			return err
		}
	}
	statement := x.d.bind("INSERT INTO " + table + " (tenant, connection, feed, type, id, " + name + ") VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING")
	for _, s := range now {
		if _, err := q.ExecContext(ctx, statement, objectArgs(f, id, write(s))...); err != nil {
			return err
		}
	}
	return nil
}

// Find implements [ingest.Index].
func (x *Index) Find(ctx context.Context, q *ingest.Query) ([]ingest.Record, error) {
	if len(q.Readers) == 0 || q.Limit <= 0 {
		return nil, nil
	}
	if len(q.Readers)+len(q.Words) > manyMarks {
		return nil, toolresult.NewError(toolresult.InvalidInput, "too many words and readers to search for at once")
	}
	same := " WHERE w.tenant = o.tenant AND w.connection = o.connection AND w.feed = o.feed AND w.type = o.type AND w.id = o.id AND w."
	text := "SELECT " + objectColumns + " FROM drawbridge_index_objects o" + ofFeed + " AND state = 'live' AND EXISTS (SELECT 1 FROM drawbridge_index_readers w" + same + "reader IN (?" + strings.Repeat(", ?", len(q.Readers)-1) + "))"
	args := feedArgs(q.Feed)
	for _, r := range q.Readers {
		args = append(args, column.Text(r))
	}
	for _, w := range q.Words {
		text += " AND EXISTS (SELECT 1 FROM drawbridge_index_words w" + same + "word = ?)"
		args = append(args, digestOf(q.Feed)(w))
	}
	text += " ORDER BY applied DESC, type, id LIMIT ? OFFSET ?"
	out, err := x.list(ctx, q.Feed, text, append(args, q.Limit, max(0, q.Offset)))
	for i := 0; err == nil && i < len(out); i++ {
		err = x.readers(ctx, x.d.db, q.Feed, &out[i])
	}
	if err != nil {
		return nil, failure(ctx, err)
	}
	return out, nil
}

func (x *Index) list(ctx context.Context, f ingest.Feed, text string, args []any) (out []ingest.Record, err error) {
	rows, err := x.d.db.QueryContext(ctx, x.d.bind(text), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		r, err := x.scan(rows, f)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Purge implements [ingest.Index].
func (x *Index) Purge(ctx context.Context, tenant, connection string) error {
	return failure(ctx, x.d.write(ctx, func(q querier) error {
		for _, table := range []string{"feeds", "objects", "readers", "words"} {
			if _, err := q.ExecContext(ctx, x.d.bind("DELETE FROM drawbridge_index_"+table+" WHERE tenant = ? AND connection = ?"), column.Text(tenant), column.Text(connection)); err != nil {
				return err
			}
		}
		return nil
	}))
}
