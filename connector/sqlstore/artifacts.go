package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/drawbridge-sdk/drawbridge/authz/credential"
	"github.com/drawbridge-sdk/drawbridge/connector/artifact"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

const (
	chunkSize = 64 << 10       // bytes of an artifact in one row
	orphaned  = 24 * time.Hour // after that, chunks without an artifact are swept
)

// Artifacts is an artifact.Store on a database. It keeps bytes in chunks of
// 64 KiB, each sealed for its place; neither Put nor a reader holds more than
// two of them, nor a transaction while it waits for anybody. It is safe for
// concurrent use by any number of goroutines and processes.
//
// A reader checks at every chunk that its artifact is still there. Bytes that
// were already fetched, at most 64 KiB, are given out after that.
type Artifacts struct {
	d *database
	q artifactStatements
}

type artifactStatements struct {
	chunk, number, insert, get, read, dropChunks, purge, purgeChunks, over, overChunks, orphans string
}

func newArtifacts(d *database) *Artifacts {
	const ofThese = "DELETE FROM drawbridge_artifact_chunks WHERE blob_id IN (SELECT blob_id FROM drawbridge_artifacts WHERE "
	s := artifactStatements{
		chunk:       "INSERT INTO drawbridge_artifact_chunks (blob_id, n, stored, bytes) VALUES (?, ?, ?, ?)",
		number:      "INSERT INTO drawbridge_artifact_numbers (tenant, run, name, last) VALUES (?, ?, ?, 1) ON CONFLICT (tenant, run, name) DO UPDATE SET last = drawbridge_artifact_numbers.last + 1 RETURNING last",
		insert:      "INSERT INTO drawbridge_artifacts (tenant, run, name, n, blob_id, connection, expires, size, digest, meta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		get:         "SELECT blob_id, connection, expires, size, digest, meta FROM drawbridge_artifacts WHERE tenant = ? AND run = ? AND name = ? AND n = ? AND expires > ?",
		read:        "SELECT c.bytes FROM drawbridge_artifacts a LEFT JOIN drawbridge_artifact_chunks c ON c.blob_id = a.blob_id AND c.n = ? WHERE a.blob_id = ? AND a.expires > ?",
		dropChunks:  "DELETE FROM drawbridge_artifact_chunks WHERE blob_id = ?",
		purge:       "DELETE FROM drawbridge_artifacts WHERE tenant = ? AND connection = ?",
		purgeChunks: ofThese + "tenant = ? AND connection = ?)",
		over:        "DELETE FROM drawbridge_artifacts WHERE expires <= ?",
		overChunks:  ofThese + "expires <= ?)",
		orphans:     "DELETE FROM drawbridge_artifact_chunks WHERE blob_id IN (SELECT c.blob_id FROM drawbridge_artifact_chunks c WHERE c.n = 0 AND c.stored <= ? AND NOT EXISTS (SELECT 1 FROM drawbridge_artifacts a WHERE a.blob_id = c.blob_id))",
	}
	for _, text := range []*string{&s.chunk, &s.number, &s.insert, &s.get, &s.read, &s.dropChunks, &s.purge, &s.purgeChunks, &s.over, &s.overChunks, &s.orphans} {
		*text = d.bind(*text)
	}
	return &Artifacts{d, s}
}

// keep writes down what no column of its own holds. It fails with
// artifact.ErrMeta for what would not come back as it was.
func keep(m *artifact.Meta) (string, error) {
	c := *m
	c.Tenant, c.Connection, c.Expires = "", "", time.Time{}
	b, err := c.MarshalJSON()
	return column.Text(string(b)), err
}

// unkeep fills in what keep wrote, except for what columns hold.
func unkeep(s string, m *artifact.Meta) error {
	var k artifact.Meta
	if err := k.UnmarshalJSON([]byte(s)); err != nil {
		return column.ErrText
	}
	m.Owner, m.Action, m.Scope, m.MediaType = k.Owner, k.Action, k.Scope, k.MediaType
	return nil
}

// Put implements [artifact.Store]. It also sweeps what is over.
func (a *Artifacts) Put(ctx context.Context, meta *artifact.Meta, r io.Reader, max int64) (err error) {
	if err := meta.Check(); err != nil {
		return err
	}
	rest, err := keep(meta)
	if err != nil {
		return err
	}
	expires, err := column.Instant(meta.Expires)
	if err != nil {
		return fmt.Errorf("%w: %w", artifact.ErrMeta, err)
	}
	u := &upload{a: a, tenant: meta.Tenant, blob: rand.Text(), sum: sha256.New(), max: min(max, math.MaxInt64-chunkSize-1)}
	defer func() {
		if err != nil && u.n > 0 {
			_, _ = a.d.exec(context.WithoutCancel(ctx), a.q.dropChunks, u.blob) // or the sweep does
		}
	}()
	last, err := u.all(ctx, r)
	if err != nil {
		return err
	}
	if err := a.remove(ctx, a.sweep); err != nil {
		return err
	}
	digest := "sha256:" + hex.EncodeToString(u.sum.Sum(nil))
	n := 0
	err = a.d.write(ctx, func(q querier) error {
		if err := u.store(ctx, q, last); err != nil {
			return err
		}
		if err := q.QueryRowContext(ctx, a.q.number, column.Text(meta.Tenant), meta.Ref.Run, meta.Ref.Name).Scan(&n); err != nil {
			return err
		}
		_, err := q.ExecContext(ctx, a.q.insert, column.Text(meta.Tenant), meta.Ref.Run, meta.Ref.Name, n, u.blob, column.Text(meta.Connection), expires, u.size, digest, rest)
		return err
	})
	if err != nil {
		return failure(ctx, err)
	}
	meta.Ref.N, meta.Size, meta.Digest = n, u.size, digest
	return nil
}

// remove is a transaction that deletes. Two of them could wait for each other's
// rows, so they take turns.
func (a *Artifacts) remove(ctx context.Context, f func(ctx context.Context, q querier) error) error {
	return failure(ctx, a.d.write(ctx, func(q querier) error {
		if a.d.dialect == PostgreSQL {
			if _, err := q.ExecContext(ctx, "SELECT pg_advisory_xact_lock(7235419640187264)"); err != nil {
				return err
			}
		}
		return f(ctx, q)
	}))
}

// Sweep removes what is over, of all tenants, and what uploads that died have
// left more than a day ago. Put does so too; a host that stores seldom calls it
// at intervals.
func (a *Artifacts) Sweep(ctx context.Context) error { return a.remove(ctx, a.sweep) }

// sweep removes what is over, and what an upload that died has left.
func (a *Artifacts) sweep(ctx context.Context, q querier) error {
	at := now()
	for _, s := range []struct {
		text string
		at   int64
	}{{a.q.overChunks, at}, {a.q.over, at}, {a.q.orphans, at - int64(orphaned)}} {
		if _, err := q.ExecContext(ctx, s.text, s.at); err != nil {
			return err
		}
	}
	return nil
}

// upload takes an artifact's bytes to the database, outside of any transaction,
// but for its last chunk.
type upload struct {
	a            *Artifacts
	tenant, blob string
	sum          hash.Hash
	n, size, max int64
}

// all stores every chunk but the last, which it returns.
func (u *upload) all(ctx context.Context, r io.Reader) (last []byte, err error) {
	for {
		chunk := make([]byte, min(chunkSize, u.max+1-u.size))
		n, err := io.ReadFull(&contextReader{ctx, r}, chunk)
		chunk = chunk[:n]
		u.size += int64(n)
		u.sum.Write(chunk)
		switch {
		case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
			return nil, toolresult.WrapError(toolresult.Code(err), "the artifact could not be read", err)
		case u.size > u.max:
			return nil, toolresult.NewError(toolresult.ResultTooLarge, "the artifact is too large")
		case err != nil:
			if n == 0 && last != nil {
				return last, nil
			}
			return u.next(ctx, last, chunk)
		}
		if last, err = u.next(ctx, last, chunk); err != nil {
			return nil, err
		}
	}
}

// next stores the chunk before, and returns the one that came.
func (u *upload) next(ctx context.Context, before, chunk []byte) ([]byte, error) {
	if before == nil {
		return chunk, nil
	}
	err := u.a.d.write(ctx, func(q querier) error { return u.store(ctx, q, before) })
	return chunk, failure(ctx, err)
}

func (u *upload) store(ctx context.Context, q querier, chunk []byte) error {
	b, err := u.a.d.lock(chunkPlace(u.tenant, u.blob, u.n), chunk)
	if err != nil {
		return err
	}
	_, err = q.ExecContext(ctx, u.a.q.chunk, u.blob, u.n, now(), b)
	u.n++
	return err
}

func chunkPlace(tenant, blob string, n int64) credential.Place {
	return credential.Place{Tenant: tenant, Record: "artifact " + blob, Field: "chunk " + strconv.FormatInt(n, 10)}
}

// contextReader fails when its context is over.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func noArtifact() error { return toolresult.NewError(toolresult.NotFound, "no such artifact") }

// Open implements [artifact.Store].
func (a *Artifacts) Open(ctx context.Context, tenant string, ref artifact.Ref) (*artifact.Meta, io.ReadCloser, error) {
	m := &artifact.Meta{Ref: ref, Tenant: tenant}
	var blob, rest string
	row := a.d.db.QueryRowContext(ctx, a.q.get, column.Text(tenant), column.Text(ref.Run), column.Text(ref.Name), ref.N, now())
	err := row.Scan(&blob, textColumn{&m.Connection}, timeColumn{&m.Expires}, &m.Size, &m.Digest, textColumn{&rest})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil, noArtifact()
	case err == nil:
		err = unkeep(rest, m)
	}
	if err != nil {
		return nil, nil, failure(ctx, err)
	}
	return m, &artifactReader{ctx: ctx, a: a, tenant: tenant, blob: blob, size: m.Size, digest: m.Digest, expires: m.Expires, sum: sha256.New()}, nil
}

// Purge implements [artifact.Store].
func (a *Artifacts) Purge(ctx context.Context, tenant, connection string) error {
	return a.remove(ctx, func(ctx context.Context, q querier) error {
		for _, s := range []string{a.q.purgeChunks, a.q.purge} {
			if _, err := q.ExecContext(ctx, s, column.Text(tenant), column.Text(connection)); err != nil {
				return err
			}
		}
		return nil
	})
}

// exec is one statement in a transaction of its own.
func (d *database) exec(ctx context.Context, statement string, args ...any) (done sql.Result, err error) {
	err = d.write(ctx, func(q querier) error {
		done, err = q.ExecContext(ctx, statement, args...)
		return err
	})
	return done, err
}

// artifactReader fetches chunk by chunk and checks the digest at the end.
type artifactReader struct {
	ctx          context.Context
	a            *Artifacts
	tenant, blob string
	digest       string
	size         int64
	expires      time.Time
	sum          hash.Hash
	n, read      int64
	chunk        bytes.Reader
}

func (r *artifactReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, toolresult.WrapError(toolresult.Code(err), "the artifact was not read to its end", err)
	}
	if !time.Now().Before(r.expires) {
		return 0, noArtifact()
	}
	for r.chunk.Len() == 0 {
		if r.n > 0 && r.read == r.size {
			if "sha256:"+hex.EncodeToString(r.sum.Sum(nil)) != r.digest {
				return 0, artifact.ErrDigest
			}
			return 0, io.EOF
		}
		if err := r.fetch(); err != nil {
			return 0, err
		}
	}
	return r.chunk.Read(p)
}

func (r *artifactReader) fetch() error {
	var b []byte
	err := r.a.d.db.QueryRowContext(r.ctx, r.a.q.read, r.n, r.blob, now()).Scan(&b)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return noArtifact()
	case err != nil:
		return failure(r.ctx, err)
	case b == nil: // the artifact is there, and its bytes are not
		return artifact.ErrDigest
	}
	b, err = r.a.d.unlock(chunkPlace(r.tenant, r.blob, r.n), b)
	if errors.Is(err, credential.ErrSealed) || errors.Is(err, errPlaintext) {
		return fmt.Errorf("%w: %w", artifact.ErrDigest, err)
	}
	if err != nil {
		return failure(r.ctx, err)
	}
	r.n++
	r.read += int64(len(b))
	r.sum.Write(b)
	r.chunk.Reset(b)
	if r.read > r.size {
		return artifact.ErrDigest
	}
	return nil
}

// Close ends the reading. It does not check the digest.
func (r *artifactReader) Close() error { return nil }
