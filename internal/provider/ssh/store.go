package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/store"
	"github.com/bee-hpc/bee/internal/treesync"
)

// NewStore returns the store in a directory on the one host of
// the settings. Nothing is installed there but the bee binary, in the user's
// cache.
func NewStore(s Settings, dir string) (driver.Store, error) {
	if len(s.Hosts) != 1 {
		return nil, &core.Error{Kind: core.Invalid, Op: "use the store", Object: s.Name, Err: errors.New("it has to be on one host")}
	}
	p, err := New(s)
	if err != nil {
		return nil, err
	}
	return &remoteStore{p: p.(*provider), dir: dir}, nil
}

type remoteStore struct {
	p    *provider
	dir  string // as the user wrote it
	mu   sync.Mutex
	link *link
}

// String implements driver.Store.
func (p *remoteStore) String() string { return p.p.s.Hosts[0] + ":" + p.dir }

// Close implements driver.Store.
func (p *remoteStore) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link == nil {
		return nil
	}
	err := p.link.Close()
	p.link = nil
	return err
}

// Run implements driver.Store.
func (p *remoteStore) Run(name string) driver.Checkpoints {
	return remoteCheckpoints{p, path.Join(p.dir, name)}
}

// Runs implements driver.Store.
func (p *remoteStore) Runs(ctx context.Context) ([]string, error) {
	r, err := p.ask(ctx, storeRequest{Op: opRuns, Dir: p.dir})
	if len(r.Runs) > store.MostNames {
		return nil, p.hostile(errors.New("it names more runs than there can be"))
	}
	return slices.DeleteFunc(r.Runs, func(name string) bool { _, _, ok := driver.ParseRunName(name); return !ok }), err
}

// ChecksContent implements driver.Store.
func (p *remoteStore) ChecksContent() bool { return false }

// SharedDirectory implements driver.Store.
func (p *remoteStore) SharedDirectory() driver.SharedDirectory { return p }

// Meeter implements driver.Store.
func (p *remoteStore) Meeter() driver.Meeter { return p }

// Path implements driver.SharedDirectory.
func (p *remoteStore) Path() string { return p.dir }

// Mark implements driver.SharedDirectory.
func (p *remoteStore) Mark(ctx context.Context, name string) error {
	_, err := p.ask(ctx, storeRequest{Op: opMark, Dir: p.dir, Path: name})
	return err
}

// Unmark implements driver.SharedDirectory.
func (p *remoteStore) Unmark(ctx context.Context, name string) error {
	_, err := p.ask(ctx, storeRequest{Op: opUnmark, Dir: p.dir, Path: name})
	return err
}

// hostile is the error of a host that answers what no agent of bee does.
func (p *remoteStore) hostile(err error) error {
	return &core.Error{Kind: core.Invalid, Op: "use the store", Object: p.String(), Err: err, Remedy: "Something else than bee answers there: do not use this store before you know what it is."}
}

// connected gives the connection to the host, made anew where it broke.
func (p *remoteStore) connected(ctx context.Context) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.link != nil {
		select {
		case <-p.link.Done():
			p.link.Close()
			p.link = nil
		default:
			return p.link, nil
		}
	}
	var err error
	p.link, err = p.p.connect(ctx, p.p.s.Hosts[0])
	return p.link, err
}

// mostReply bounds what a store answers at once: manifests are the largest.
const mostReply = store.MostManifests + 1<<20

// open makes a call whose stream goes on where its reply says so.
func open[Resp any](ctx context.Context, p *remoteStore, m rpc.Method[storeCall, Resp], q storeRequest, direct *driver.Connection) (*rpc.Stream, Resp, error) {
	var none Resp
	k, err := p.connected(ctx)
	if err != nil {
		return nil, none, err
	}
	raw, err := json.Marshal(q)
	if err != nil {
		return nil, none, err
	}
	c := storeCall{Store: raw}
	if direct != nil {
		c.Via = direct.Name
	}
	s, reply, err := rpc.Open(ctx, k.Peer, m, c)
	return s, reply, transient(err)
}

func (p *remoteStore) ask(ctx context.Context, q storeRequest) (storeReply, error) {
	s, _, err := open(ctx, p, callStore, q, nil)
	if err != nil {
		return storeReply{}, err
	}
	defer s.Close()
	raw, err := readReply(s, mostReply)
	if errors.Is(err, errLong) {
		return storeReply{}, p.hostile(err)
	}
	return answer(raw, err)
}

// errLong is the cause where an answer is longer than one can be.
var errLong = errors.New("its answer is too long") //nolint:gochecknoglobals // a constant

// readReply reads what a store's agent answers, of so many bytes at most.
func readReply(r io.Reader, most int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, most+1))
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", errLong, most)
	}
	return raw, err
}

// remoteCheckpoints is the directory of one run on the host.
type remoteCheckpoints struct {
	*remoteStore
	dir string
}

// List implements driver.Checkpoints.
func (s remoteCheckpoints) List(ctx context.Context) ([]driver.Checkpoint, error) {
	r, err := s.ask(ctx, storeRequest{Op: opList, Dir: s.dir})
	if err == nil {
		if cerr := store.CheckList(r.List); cerr != nil {
			return nil, s.hostile(cerr)
		}
	}
	for i := range r.List {
		r.List[i].Place = s.p.s.Hosts[0] + ":" + path.Join(s.dir, r.List[i].Generation.String(), "volume")
	}
	return r.List, err
}

// Note implements driver.Checkpoints.
func (s remoteCheckpoints) Note(ctx context.Context, record []byte) error {
	_, err := s.ask(ctx, storeRequest{Op: opNote, Dir: s.dir, Record: record})
	return err
}

// Noted implements driver.Checkpoints.
func (s remoteCheckpoints) Noted(ctx context.Context) ([]byte, error) {
	r, err := s.ask(ctx, storeRequest{Op: opNoted, Dir: s.dir})
	if len(r.Record) > store.MostRecord {
		return nil, s.hostile(errors.New("its record of a run is larger than one can be"))
	}
	return r.Record, err
}

// Check implements driver.Checkpoints: the host compares.
func (s remoteCheckpoints) Check(ctx context.Context, k driver.Checkpoint) error {
	_, err := s.ask(ctx, storeRequest{Op: opCheck, Dir: s.dir, Kept: k})
	return err
}

// Remove implements driver.Checkpoints.
func (s remoteCheckpoints) Remove(ctx context.Context) error {
	_, err := s.ask(ctx, storeRequest{Op: opRemove, Dir: s.dir})
	return err
}

// Keep implements driver.Checkpoints: the host receives the tree from wherever it
// lies, straight or through this machine's memory.
func (s remoteCheckpoints) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	direct := from.Direct()
	host, o, err := open(ctx, s.remoteStore, callStoreKeep, storeRequest{Dir: s.dir, Generation: g, Site: site}, direct)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	defer host.Close()
	if !o.Ready {
		return o.Reply.Manifest, o.Reply.Made, nil
	}
	tree, err := from.Send(ctx)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	defer tree.Close()
	arriving := &keeping{Stream: host, store: s}
	if direct != nil {
		err = arrival(arriving, tree, direct)
		return arriving.reply.Manifest, arriving.reply.Made, err
	}
	if err := treesync.RelayKnown(tree, host); err != nil {
		return driver.Manifest{}, false, s.broken("keep a checkpoint", err)
	}
	err = treesync.Deliver(arriving, func(w io.Writer) error { return treesync.Relay(w, tree) })
	return arriving.reply.Manifest, arriving.reply.Made, err
}

// keeping is the stream of a call that keeps a store.
type keeping struct {
	*rpc.Stream
	store remoteCheckpoints
	reply storeReply
}

// Outcome implements treesync.Receiver.
func (k *keeping) Outcome() error {
	e, err := rpc.Receive[ended](k.Stream, maxManifest)
	if err != nil {
		return k.store.broken("keep a checkpoint", err)
	}
	k.reply = e.Reply
	return e.Failed.Err()
}

// Restore implements driver.Checkpoints.
func (s remoteCheckpoints) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	direct := to.Direct()
	host, o, err := open(ctx, s.remoteStore, callStoreRestore, storeRequest{Dir: s.dir, Kept: k}, direct)
	if err != nil {
		return err
	}
	defer host.Close()
	if o.Reply.Damaged {
		return driver.ErrDamaged
	}
	tree, err := to.Receive(ctx)
	if err != nil {
		return err
	}
	defer tree.Close()
	if direct != nil {
		return arrival(tree, host, direct)
	}
	if err := treesync.RelayKnown(host, tree); err != nil {
		return s.broken("bring a checkpoint", err)
	}
	return treesync.Deliver(tree, func(w io.Writer) error { return treesync.Relay(w, host) })
}

func (s remoteCheckpoints) broken(op string, err error) error {
	return transient(&core.Error{Kind: core.Lost, Op: op, Object: s.String(), Err: err})
}
