package state

import (
	"context"
	"database/sql"

	"golang.org/x/sync/semaphore"
)

// conn is one connection, which does one statement at a time.
//
// A caller that waits for its turn may give up, but a statement that has begun ends:
// it takes no longer than busyTimeout. One that is interrupted would cost the
// connection, and leave open whether it has written. database/sql does not queue
// here either: a goroutine that outlives its callers would then open the next
// connection for one of them, which tests in virtual time cannot wait for.
type conn struct {
	db   *sql.DB
	turn *semaphore.Weighted
	// ready are statements that are prepared: most of the time of a small one
	// would go there.
	ready map[string]*sql.Stmt
}

func newConn(dsn string) (*conn, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &conn{db: db, turn: semaphore.NewWeighted(1), ready: map[string]*sql.Stmt{}}, nil
}

// close closes the connection once its last statement has ended.
func (c *conn) close() error { return c.db.Close() }

// do has the connection for itself while f uses it, with a context that ends for
// nothing.
func (c *conn) do(ctx context.Context, f func(context.Context, *sql.DB) error) error {
	if err := c.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.turn.Release(1)
	return f(context.WithoutCancel(ctx), c.db)
}

// prepared returns a statement to the caller that holds the connection.
func (c *conn) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := c.ready[query]; s != nil {
		return s, nil
	}
	s, err := c.db.PrepareContext(ctx, query)
	if err == nil {
		c.ready[query] = s
	}
	return s, err
}

// exec changes something.
func (c *conn) exec(ctx context.Context, query string, args ...any) error {
	return c.do(ctx, func(ctx context.Context, _ *sql.DB) error { return (&tx{c}).exec(ctx, query, args...) })
}

// rows gives what a query finds, each row as read makes it.
func rows[T any](ctx context.Context, c *conn, read func(scan func(...any) error) (T, error), query string, args ...any) (found []T, err error) {
	err = c.do(ctx, func(ctx context.Context, _ *sql.DB) (err error) {
		found, err = txRows(ctx, &tx{c}, read, query, args...)
		return err
	})
	return found, err
}

// scanned returns all rows of a query, and closes it.
func scanned[T any](rows *sql.Rows, read func(scan func(...any) error) (T, error)) ([]T, error) {
	defer rows.Close()
	var found []T
	for rows.Next() {
		one, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}
