package gateway

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector"
	"github.com/drawbridge-sdk/drawbridge/connector/release"
)

// ErrGate says that a replica must not serve beside those that do.
var ErrGate = errors.New("gateway: the release does not go beside the one that is served")

// gate holds what a replica promises against what the others do. A row for each
// replica is in the database, and is renewed as long as it serves.
//
// While two releases are behind one endpoint, a client lists tools at one and
// calls them at the other. So what breaks is refused here whatever the version
// says: a new major version belongs behind an endpoint of its own. What a person
// has to look at is refused as well, until somebody says that he has.
type gate struct {
	db       *sql.DB
	sqlite   bool
	id       string
	release  string
	promises []release.Contract
}

const (
	beat  = 2 * time.Second
	alive = 5 * beat // a replica that was killed counts for so long
)

func openGate(ctx context.Context, db *sql.DB, sqlite bool, id, version string, connectors []connector.Connector) (*gate, error) {
	g := &gate{db: db, sqlite: sqlite, id: id, release: version}
	for _, c := range connectors {
		g.promises = append(g.promises, release.Of(c))
	}
	_, err := g.exec(ctx, `CREATE TABLE IF NOT EXISTS gateway_replicas (id TEXT PRIMARY KEY, release TEXT NOT NULL, promises TEXT NOT NULL, seen BIGINT NOT NULL)`)
	if err != nil && !sqlite { // two replicas made it at once
		_, err = g.exec(ctx, `SELECT 1 FROM gateway_replicas LIMIT 1`)
	}
	return g, err
}

// place writes parameters as the database wants them.
func (g *gate) place(query string) string {
	if g.sqlite {
		return strings.ReplaceAll(query, "$", "?")
	}
	return query
}

func (g *gate) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return g.db.ExecContext(ctx, g.place(query), args...)
}

// enter puts the replica among the others, if it goes beside them. It is there
// before it looks: of two that do not go together and come at once, none gets in.
func (g *gate) enter(ctx context.Context, reviewed bool) (err error) {
	promises, err := json.Marshal(g.promises)
	if err != nil {
		return err
	}
	if _, err := g.exec(ctx, `INSERT INTO gateway_replicas (id, release, promises, seen) VALUES ($1, $2, $3, $4)`, g.id, g.release, string(promises), time.Now().UnixMilli()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.leave(ctx))
		}
	}()
	rows, err := g.db.QueryContext(ctx, g.place(`SELECT release, promises FROM gateway_replicas WHERE id <> $1 AND seen > $2`), g.id, time.Now().Add(-alive).UnixMilli())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var version, text string
		if err := rows.Scan(&version, &text); err != nil {
			return err
		}
		if err := g.beside(version, text, reviewed); err != nil {
			return err
		}
	}
	return rows.Err()
}

// beside compares with one other replica: the way that is held against the rules
// is from what is served to this one. So the way back is refused as well, where
// the newer release promises more than the older one.
func (g *gate) beside(version, text string, reviewed bool) error {
	var theirs []release.Contract
	if err := json.Unmarshal([]byte(text), &theirs); err != nil {
		return fmt.Errorf("%w: what release %s promises cannot be read", ErrGate, version)
	}
	for _, was := range theirs {
		now, found := g.promise(was.Connector)
		if !found {
			return fmt.Errorf("%w: release %s serves the connector %s, and this one does not", ErrGate, version, was.Connector)
		}
		r := release.Compare(was, now)
		switch worst, differs := r.Worst(); {
		case differs && worst == release.Breaking:
			return fmt.Errorf("%w: it breaks what release %s promises; serve it at an endpoint of its own, or end the other first:\n%s", ErrGate, version, r)
		case differs && worst == release.Review && !reviewed:
			return fmt.Errorf("%w: somebody has to look at what differs from release %s, and then say -reviewed:\n%s", ErrGate, version, r)
		}
	}
	return nil
}

func (g *gate) promise(connector string) (release.Contract, bool) {
	for _, p := range g.promises {
		if p.Connector == connector {
			return p, true
		}
	}
	return release.Contract{}, false
}

// stay renews the row until ctx ends.
func (g *gate) stay(ctx context.Context, failed func(error)) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := g.exec(ctx, `UPDATE gateway_replicas SET seen = $1 WHERE id = $2`, time.Now().UnixMilli(), g.id); err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}

// leave takes the row away, and those of replicas that are long gone.
func (g *gate) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := g.exec(ctx, `DELETE FROM gateway_replicas WHERE id = $1 OR seen < $2`, g.id, time.Now().Add(-time.Hour).UnixMilli())
	return err
}
