// Package ssh is the store of checkpoints in a directory of a host that is reached by ssh.
// It knows of no site.
package ssh

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/sshlink/storecall"
	"github.com/bee-hpc/bee/internal/store"
	"github.com/bee-hpc/bee/internal/treesync"
)

// New returns the store in a directory of a host. Nothing is installed there but the bee
// binary, in the user's cache.
func New(client *sshlink.Client, host, dir string) driver.Store {
	return &remoteStore{client: client, host: host, dir: dir}
}

type remoteStore struct {
	client *sshlink.Client
	host   string // as ssh understands it
	dir    string // as the user wrote it
	mu     sync.Mutex
	link   *sshlink.Link
}

// String implements driver.Store.
func (p *remoteStore) String() string { return p.host + ":" + p.dir }

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
	r, err := p.ask(ctx, storecall.Request{Op: storecall.OpRuns, Dir: p.dir})
	if len(r.Runs) > store.MostNames {
		return nil, p.hostile(errors.New("it names more runs than there can be"))
	}
	return slices.DeleteFunc(r.Runs, func(name string) bool { _, _, ok := driver.ParseRunName(name); return !ok }), err
}

// ChecksContent implements driver.Store.
func (p *remoteStore) ChecksContent() bool { return false }

// SharedDirectory implements driver.Store.
func (p *remoteStore) SharedDirectory() driver.SharedDirectory { return p }

// Connector implements driver.Store.
func (p *remoteStore) Connector() driver.Connector { return p }

// Bucket implements driver.Store.
func (p *remoteStore) Bucket() driver.Bucket { return nil }

// Machine implements driver.Connector.
func (p *remoteStore) Machine() string { return p.host }

// Rendezvous implements driver.Connector.
func (p *remoteStore) Rendezvous(ctx context.Context, m driver.RendezvousSpec) (driver.End, error) {
	k, err := p.connected(ctx)
	if err != nil {
		return nil, err
	}
	return p.client.Rendezvous(ctx, k, m)
}

// Path implements driver.SharedDirectory.
func (p *remoteStore) Path() string { return p.dir }

// Mark implements driver.SharedDirectory.
func (p *remoteStore) Mark(ctx context.Context, name string) error {
	_, err := p.ask(ctx, storecall.Request{Op: storecall.OpMark, Dir: p.dir, Path: name})
	return err
}

// Unmark implements driver.SharedDirectory.
func (p *remoteStore) Unmark(ctx context.Context, name string) error {
	_, err := p.ask(ctx, storecall.Request{Op: storecall.OpUnmark, Dir: p.dir, Path: name})
	return err
}

// hostile is the error of a host that answers what no agent of bee does.
func (p *remoteStore) hostile(err error) error {
	return &core.Error{Kind: core.Invalid, Op: "use the store", Object: p.String(), Err: err, Remedy: "Something else than bee answers there: do not use this store before you know what it is."}
}

// connected gives the connection to the host, made again where it broke.
func (p *remoteStore) connected(ctx context.Context) (*sshlink.Link, error) {
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
	p.link, err = p.client.Connect(ctx, p.host)
	return p.link, err
}

// open makes a call whose stream continues where its reply says so.
func (p *remoteStore) open(ctx context.Context, m storecall.Method, q storecall.Request, direct *driver.Connection) (*rpc.Stream, storecall.Opened, error) {
	k, err := p.connected(ctx)
	if err != nil {
		return nil, storecall.Opened{}, err
	}
	return storecall.Open(ctx, k, m, q, direct)
}

func (p *remoteStore) ask(ctx context.Context, q storecall.Request) (storecall.Reply, error) {
	k, err := p.connected(ctx)
	if err != nil {
		return storecall.Reply{}, err
	}
	r, err := storecall.Ask(ctx, k, q)
	if errors.Is(err, storecall.ErrLong) {
		return storecall.Reply{}, p.hostile(err)
	}
	return r, err
}

// remoteCheckpoints is the directory of one run on the host.
type remoteCheckpoints struct {
	*remoteStore
	dir string
}

// List implements driver.Checkpoints.
func (s remoteCheckpoints) List(ctx context.Context) ([]driver.Checkpoint, error) {
	r, err := s.ask(ctx, storecall.Request{Op: storecall.OpList, Dir: s.dir})
	if err == nil {
		if cerr := store.CheckList(r.List); cerr != nil {
			return nil, s.hostile(cerr)
		}
	}
	for i := range r.List {
		r.List[i].Place = s.host + ":" + path.Join(s.dir, r.List[i].Generation.String(), "volume")
	}
	return r.List, err
}

// Note implements driver.Checkpoints.
func (s remoteCheckpoints) Note(ctx context.Context, record []byte) error {
	_, err := s.ask(ctx, storecall.Request{Op: storecall.OpNote, Dir: s.dir, Record: record})
	return err
}

// Noted implements driver.Checkpoints.
func (s remoteCheckpoints) Noted(ctx context.Context) ([]byte, error) {
	r, err := s.ask(ctx, storecall.Request{Op: storecall.OpNoted, Dir: s.dir})
	if len(r.Record) > store.MostRecord {
		return nil, s.hostile(errors.New("its record of a run is larger than one can be"))
	}
	return r.Record, err
}

// Check implements driver.Checkpoints: the host compares.
func (s remoteCheckpoints) Check(ctx context.Context, k driver.Checkpoint) error {
	_, err := s.ask(ctx, storecall.Request{Op: storecall.OpCheck, Dir: s.dir, Kept: k})
	return err
}

// Remove implements driver.Checkpoints.
func (s remoteCheckpoints) Remove(ctx context.Context) error {
	_, err := s.ask(ctx, storecall.Request{Op: storecall.OpRemove, Dir: s.dir})
	return err
}

// Keep implements driver.Checkpoints: the host receives the tree from wherever it
// lies, straight or through this machine's memory.
func (s remoteCheckpoints) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	direct := from.Direct()
	host, o, err := s.open(ctx, storecall.CallKeep, storecall.Request{Dir: s.dir, Generation: g, Site: site}, direct)
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
		err = sshlink.Arrival(arriving, tree, direct)
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
	reply storecall.Reply
}

// Outcome implements treesync.Receiver.
func (k *keeping) Outcome() error {
	e, err := rpc.Receive[storecall.Ended](k.Stream, storecall.MaxManifest)
	if err != nil {
		return k.store.broken("keep a checkpoint", err)
	}
	k.reply = e.Reply
	return e.Failed.Err()
}

// Restore implements driver.Checkpoints.
func (s remoteCheckpoints) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	direct := to.Direct()
	host, o, err := s.open(ctx, storecall.CallRestore, storecall.Request{Dir: s.dir, Kept: k}, direct)
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
		return sshlink.Arrival(tree, host, direct)
	}
	if err := treesync.RelayKnown(host, tree); err != nil {
		return s.broken("bring a checkpoint", err)
	}
	return treesync.Deliver(tree, func(w io.Writer) error { return treesync.Relay(w, host) })
}

func (s remoteCheckpoints) broken(op string, err error) error {
	return sshlink.Transient(&core.Error{Kind: core.Lost, Op: op, Object: s.String(), Err: err})
}
