package sqlstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-sdk/drawbridge/connector/cache/generation"
	"github.com/drawbridge-sdk/drawbridge/connector/sqlstore/internal/column"
	"github.com/drawbridge-sdk/drawbridge/toolresult"
)

// Generations is a generation.Store on a database. It is safe for concurrent use
// by any number of goroutines and processes. A number is the time in nanoseconds
// or one more than the last, whichever is greater, so that a mark whose row is
// gone does not come back with an old one.
type Generations struct{ d *database }

var _ generation.Store = (*Generations)(nil)

// Generations returns the generation.Store on the same database.
func (s *Store) Generations() *Generations { return &Generations{s.d} }

const manyMarks = 500 // in one statement

// Current implements [generation.Store].
func (g *Generations) Current(ctx context.Context, marks []generation.Mark) ([]generation.State, error) {
	found := map[generation.Mark]generation.State{}
	for part := range slices.Chunk(marks, manyMarks) {
		args := make([]any, len(part))
		for i, m := range part {
			args[i] = column.Text(string(m))
		}
		if err := g.read(ctx, args, found); err != nil {
			return nil, failure(ctx, err)
		}
	}
	out := make([]generation.State, len(marks))
	for i, m := range marks {
		out[i] = found[m]
	}
	return out, nil
}

func (g *Generations) read(ctx context.Context, args []any, found map[generation.Mark]generation.State) error {
	list := strings.Repeat("?, ", len(args)-1) + "?"
	rows, err := g.d.db.QueryContext(ctx, g.d.bind("SELECT mark, number, open FROM drawbridge_generations WHERE mark IN ("+list+")"), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var mark string
		var s generation.State
		if err := rows.Scan(textColumn{&mark}, &s.N, timeColumn{&s.Open}); err != nil {
			return err
		}
		found[generation.Mark(mark)] = s
	}
	return rows.Err()
}

// Advance implements [generation.Store].
func (g *Generations) Advance(ctx context.Context, marks []generation.Mark, open time.Time) error {
	until, err := column.Instant(open)
	if err != nil {
		return toolresult.WrapError(toolresult.Internal, "the time cannot be stored", err)
	}
	texts := make([]string, len(marks))
	for i, m := range marks {
		texts[i] = column.Text(string(m))
	}
	slices.Sort(texts) // all lock rows in one order
	statement := g.d.bind("INSERT INTO drawbridge_generations (mark, number, open) VALUES (?, ?, ?) ON CONFLICT (mark) DO UPDATE SET open = excluded.open, " +
		"number = CASE WHEN excluded.number > drawbridge_generations.number THEN excluded.number ELSE drawbridge_generations.number + 1 END")
	return failure(ctx, g.d.together(ctx, func(ctx context.Context, q querier) error {
		for _, mark := range slices.Compact(texts) {
			if _, err := q.ExecContext(ctx, statement, mark, now(), until); err != nil {
				return err
			}
		}
		return nil
	}))
}
