package sqlstore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync"
)

// group lets writers of a SQLite file that wait for each other anyway share one
// transaction, and with it one flush of the disk. Whoever's turn it is writes for
// all who have come meanwhile; nobody else runs anything.
type group struct {
	mu      sync.Mutex
	waiting []*task
}

// task is one writer's part. Its fields belong to whoever has the turn.
type task struct {
	ctx  context.Context // does not end: an interrupted statement would undo the others'
	run  func(ctx context.Context, q querier) error
	err  error
	over chan struct{} // closed when it is written, or is not and never will be
}

// together runs f in a transaction, which on SQLite others may share. f fails
// alone. It must not wait for anything but the database. Nothing of f runs after
// together has returned.
func (d *database) together(ctx context.Context, f func(ctx context.Context, q querier) error) error {
	if d.dialect != SQLite {
		return d.write(ctx, func(q querier) error { return f(ctx, q) })
	}
	t := &task{ctx: context.WithoutCancel(ctx), run: f, over: make(chan struct{})}
	d.group.add(t)
	release, err := d.turn(ctx)
	if err == nil {
		defer release()
		if d.group.waits(t) {
			err = d.writeAll(ctx)
		}
	}
	if err != nil && d.group.remove(t) {
		return err
	}
	<-t.over // somebody writes for it
	return t.err
}

func (g *group) add(t *task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, t)
}

func (g *group) waits(t *task) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.waiting, t)
}

// remove reports whether the task still waited.
func (g *group) remove(t *task) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.waiting)
	g.waiting = slices.DeleteFunc(g.waiting, func(o *task) bool { return o == t })
	return len(g.waiting) < n
}

func (g *group) take() []*task {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.waiting
	g.waiting = nil
	return all
}

// writeAll runs what waits, in one transaction. Its error says that there was
// none, and that everybody still waits.
func (d *database) writeAll(ctx context.Context) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	last := context.WithoutCancel(ctx)
	all := d.group.take()
	failed := error(nil)
	for _, t := range all {
		if failed = t.within(last, conn, len(all) > 1); failed != nil {
			break
		}
	}
	if failed == nil && (len(all) > 1 || all[0].err == nil) {
		_, failed = conn.ExecContext(last, "COMMIT")
	} else if _, err := conn.ExecContext(last, "ROLLBACK"); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // takes it out of the pool
	}
	for _, t := range all {
		if failed != nil && t.err == nil {
			t.err = failed
		}
		close(t.over)
	}
	return nil
}

// within runs a task so that its failure undoes nothing but its own. The error
// is one that undoes everything.
func (t *task) within(ctx context.Context, q querier, saved bool) error {
	if !saved {
		t.err = t.safely(q)
		return nil
	}
	if _, err := q.ExecContext(ctx, "SAVEPOINT part"); err != nil {
		return err
	}
	if t.err = t.safely(q); t.err != nil {
		if _, err := q.ExecContext(ctx, "ROLLBACK TO part"); err != nil {
			return err
		}
	}
	_, err := q.ExecContext(ctx, "RELEASE part")
	return err
}

func (t *task) safely(q querier) (err error) {
	defer func() {
		if v := recover(); v != nil { // in another's goroutine, who has nothing to do with it
			err = fmt.Errorf("sqlstore: a function that was to write panicked: %v", v)
		}
	}()
	return t.run(t.ctx, q)
}
