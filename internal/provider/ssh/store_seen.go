package ssh

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

// Sees implements driver.StoreAccess.
func (l *lease) Sees(ctx context.Context, path string) (bool, error) {
	return about(ctx, l, 0, callSees, at(path))
}

// Serve implements driver.StoreAccess.
func (l *lease) Serve(ctx context.Context, request json.RawMessage) (json.RawMessage, error) {
	k, err := l.link(ctx, 0)
	if err != nil {
		return nil, err
	}
	s, _, err := rpc.Open(ctx, k.Peer, callStore, storeCall{Store: request})
	if err != nil {
		return nil, transient(err)
	}
	defer s.Close()
	raw, err := readReply(s, mostReply)
	if errors.Is(err, errLong) {
		return nil, &core.Error{Kind: core.Invalid, Op: "use the store from", Object: l.hosts[0].Name, Err: err, Remedy: "Something else than bee answers there."}
	}
	return raw, transient(err)
}
