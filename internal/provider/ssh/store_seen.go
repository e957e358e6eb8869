package ssh

import (
	"context"
	"encoding/json"
	"io"
)

// Sees implements driver.StoreHost.
func (l *lease) Sees(ctx context.Context, path string) (bool, error) {
	var sees bool
	err := l.about(ctx, 0, callSees, func(c *call) { c.Path = path }, &sees)
	return sees, err
}

// Serve implements driver.StoreHost.
func (l *lease) Serve(ctx context.Context, request json.RawMessage) (json.RawMessage, error) {
	link, inner, err := l.far(0)
	if err != nil {
		return nil, err
	}
	k, err := l.link(ctx, link)
	if err != nil {
		return nil, err
	}
	c := l.call(link, inner)
	c.Store = request
	s, err := k.Open(ctx, callStore, c, nil)
	if err != nil {
		return nil, transient(err)
	}
	defer s.Close()
	raw, err := io.ReadAll(s)
	return raw, transient(err)
}
