package storecall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/store"
)

// mostReply bounds what a store answers at once: manifests are the largest.
const mostReply = store.MostManifests + 1<<20

// Ask makes a request that needs no stream. Its error is ErrLong where something else than
// bee answers.
func Ask(ctx context.Context, k *sshlink.Link, q Request) (Reply, error) {
	request, err := json.Marshal(q)
	if err != nil {
		return Reply{}, err
	}
	s, _, err := rpc.Open(ctx, k.Peer, callStore, call{Store: request})
	if err != nil {
		return Reply{}, sshlink.Transient(err)
	}
	defer s.Close()
	return answer(readReply(s, mostReply))
}

// Method is a call whose stream carries a tree.
type Method = rpc.Method[call, Opened]

// Open makes a call whose stream continues where its reply says so. The tree goes over the
// connection, if there is one.
func Open(ctx context.Context, k *sshlink.Link, m Method, q Request, direct *driver.Connection) (*rpc.Stream, Opened, error) {
	raw, err := json.Marshal(q)
	if err != nil {
		return nil, Opened{}, err
	}
	c := call{Store: raw}
	if direct != nil {
		c.Via = direct.Name
	}
	s, reply, err := rpc.Open(ctx, k.Peer, m, c)
	return s, reply, sshlink.Transient(err)
}

// ErrLong is the cause where an answer is longer than one can be.
var ErrLong = errors.New("its answer is too long")

// readReply reads what a store's agent answers, of so many bytes at most.
func readReply(r io.Reader, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrLong, most)
	}
	return raw, err
}
