package state

import (
	"context"
	"database/sql"
	"sync"
)

// conn is a connection that prepares each statement once: most of the time of a
// small one would go there.
type conn struct {
	*sql.DB
	mu    sync.Mutex
	ready map[string]*sql.Stmt
}

func newConn(dsn string) (*conn, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &conn{DB: db, ready: map[string]*sql.Stmt{}}, nil
}

func (c *conn) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	c.mu.Lock()
	s := c.ready[query]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	// Not locked: it waits for the connection, which may wait for other processes.
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready[query] = s // another one made meanwhile goes with the connection
	return s, nil
}

// exec changes something.
func (c *conn) exec(ctx context.Context, query string, args ...any) error {
	s, err := c.prepared(ctx, query)
	if err == nil {
		_, err = s.ExecContext(ctx, args...)
	}
	return err
}

// query asks for rows.
func (c *conn) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := c.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}
