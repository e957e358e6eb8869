package ssh

import (
	"context"
	"encoding/json"
	"io"
)

// Sees implements driver.StoreHost.
func (l *lease) Sees(ctx context.Context, path string) (bool, error) {
	var sees bool
	err := l.about(ctx, 0, callSees, at(path), &sees)
	return sees, err
}

// Serve implements driver.StoreHost.
func (l *lease) Serve(ctx context.Context, request json.RawMessage) (json.RawMessage, error) {
	s, err := l.open(ctx, ctx, 0, callStore, func(c *call) { c.Store = request })
	if err != nil {
		return nil, err
	}
	defer s.Close()
	raw, err := io.ReadAll(s)
	return raw, transient(err)
}
