package far

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Far is a directory of a host behind ssh.
type Far struct {
	client *sshlink.Client
	place  remote.Place
	volume string
	rate   *remote.Rate
	ctx    context.Context // ends with Stop
	stop   context.CancelFunc

	mu      sync.Mutex
	link    *sshlink.Link
	claimed bool // the directory has the record of the volume
}

// Open uses a directory of a host for a volume. It does not try the host.
func Open(client *sshlink.Client, p remote.Place, o remote.Options) *Far {
	f := &Far{client: client, place: p, volume: o.Volume, rate: &remote.Rate{PerSecond: o.Rate}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Stop implements remote.Remote.
func (f *Far) Stop() { f.stop() }

// Close implements remote.Remote.
func (f *Far) Close() error {
	f.stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.link == nil {
		return nil
	}
	err := f.link.Close()
	f.link = nil
	return err
}

// Traits implements remote.Remote. A file that is open goes with its connection.
func (f *Far) Traits() remote.Traits { return remote.Traits{Moves: true, Fresh: 2 * time.Second} }

// connected gives the connection to the host, made again where it broke.
func (f *Far) connected() (*sshlink.Link, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.link.Usable() {
		return f.link, nil
	}
	var err error
	f.link, err = f.client.Connect(f.ctx, f.place.Host)
	return f.link, err
}

// ask makes a request; send sends what follows it.
func (f *Far) ask(q request, send func(io.Writer) error) (reply, []byte, error) {
	r, data, err := f.exchange(q, send)
	switch {
	case f.ctx.Err() != nil:
		return r, nil, context.Canceled
	case err != nil:
		return r, nil, remote.Away(err)
	case r.Fault != nil:
		return r, data, r.Fault.err(q.Op, f.at(q.Name))
	}
	return r, data, nil
}

func (f *Far) at(name string) string { return f.place.Host + ":" + path.Join(f.place.Dir, name) }

func (f *Far) exchange(q request, send func(io.Writer) error) (reply, []byte, error) {
	q.Dir, q.Volume = f.place.Dir, f.volume
	f.mu.Lock()
	q.Claimed = f.claimed
	f.mu.Unlock()
	k, err := f.connected()
	if err != nil {
		return reply{}, nil, err
	}
	s, err := rpc.Begin(f.ctx, k.Peer, call, q) // its first answer comes with the reply: one round trip less
	if err != nil {
		return reply{}, nil, err
	}
	defer s.Close()
	defer context.AfterFunc(f.ctx, func() { s.Close() })()
	var serr error
	if send != nil {
		serr = send(s)
	}
	if unread := (readError{}); errors.As(serr, &unread) {
		return reply{}, nil, serr
	}
	r, err := rpc.Receive[reply](s, mostReply) // of a write that has failed there, too
	if err != nil {
		return r, nil, errors.Join(err, serr)
	}
	if r.Read > q.Size && q.Op == opRead || r.Read > 0 && q.Op != opRead {
		return r, nil, &core.Error{Kind: core.Invalid, Op: "use remote", Object: f.at(q.Name), Err: fmt.Errorf("its host sends %d bytes, and %d were asked for", r.Read, q.Size), Remedy: "Something else than bee answers there."}
	}
	data := make([]byte, r.Read)
	_, err = io.ReadFull(s, data)
	return r, data, err
}

// readError is about content that cannot be read here.
type readError struct{ error }

// Stat implements remote.Remote.
func (f *Far) Stat(name string) (remote.Entry, error) {
	r, _, err := f.ask(request{Op: opStat, Name: name}, nil)
	return r.Entry, err
}

// List implements remote.Remote.
func (f *Far) List(dir string) ([]remote.Entry, error) { return f.list(dir, 0) }

// Glance implements remote.Remote.
func (f *Far) Glance(dir string, most int) ([]remote.Entry, error) { return f.list(dir, most) }

// list lists a directory; most: of up to so many names. 0: of any number.
func (f *Far) list(dir string, most int) ([]remote.Entry, error) {
	r, _, err := f.ask(request{Op: opList, Name: dir, Size: int64(most)}, nil)
	if err != nil {
		return nil, err
	}
	if most > 0 && len(r.List) > most {
		return nil, &fs.PathError{Op: string(opList), Path: f.at(dir), Err: remote.ErrLarge}
	}
	list := r.List[:0]
	for _, e := range r.List {
		if remote.Plain(e.Name) && !remote.HiddenIn(dir, e.Name) {
			list = append(list, e)
		}
	}
	return list, nil
}

// Space implements remote.Remote.
func (f *Far) Space() (total, free int64, err error) {
	r, _, err := f.ask(request{Op: opSpace}, nil)
	return r.Total, r.Free, err
}

// Check implements remote.Remote.
func (f *Far) Check(name string) error { return remote.CheckPath(name) }

// Ensure implements remote.Remote. The top directory is there, or the change after it fails.
func (f *Far) Ensure(dir string) error {
	if dir == "." {
		return nil
	}
	return f.do(request{Op: opEnsure, Name: dir})
}

func (f *Far) do(q request) error {
	_, _, err := f.ask(q, nil)
	return err
}

// Write implements remote.Remote.
func (f *Far) Write(ctx context.Context, name string, ino uint64, c remote.Content) (string, remote.Version, error) {
	q := request{Op: opWrite, Name: name, Ino: ino, Seq: c.Seq, Size: c.Size, Mode: c.Mode, Mtime: c.Mtime}
	r, _, err := f.ask(q, func(w io.Writer) error {
		var failed error // of the line
		err := c.Data(func(off int64, data []byte) error {
			for len(data) > 0 && failed == nil {
				n := min(len(data), piece)
				if failed = f.rate.Wait(ctx, n); failed == nil {
					failed = send(w, off, data[:n])
				}
				data, off = data[n:], off+int64(n)
			}
			return failed
		})
		if err != nil && failed == nil {
			return readError{err}
		}
		if err == nil {
			err = send(w, 0, nil)
		}
		return err
	})
	return r.Partial, r.Version, err
}

func send(w io.Writer, off int64, data []byte) error {
	p := make([]byte, 12, 12+len(data))
	binary.BigEndian.PutUint64(p[:8], uint64(off))       // an offset
	binary.BigEndian.PutUint32(p[8:], uint32(len(data))) // a piece
	_, err := w.Write(append(p, data...))
	return err
}

// Discard implements remote.Remote.
func (f *Far) Discard(name string, ino uint64) error {
	return f.do(request{Op: opDiscard, Name: name, Ino: ino})
}

// Publish implements remote.Remote.
func (f *Far) Publish(partial, name string, ours, expect remote.Version) (remote.Version, error) {
	r, _, err := f.ask(request{Op: opPublish, Name: name, To: partial, Ours: ours, Expect: expect}, nil)
	return r.Version, err
}

// Remove implements remote.Remote.
func (f *Far) Remove(name string, ino uint64, expect remote.Version) error {
	return f.do(request{Op: opRemove, Name: name, Ino: ino, Expect: expect})
}

// Move implements remote.Remote.
func (f *Far) Move(from, to string, seq uint64, ours, expect remote.Version) (remote.Version, error) {
	r, _, err := f.ask(request{Op: opMove, Name: from, To: to, Seq: seq, Ours: ours, Expect: expect}, nil)
	return r.Version, err
}

// MoveDir implements remote.Remote.
func (f *Far) MoveDir(from, to string, seq uint64, ours remote.Version, over bool) (map[string]remote.Version, error) {
	return nil, f.do(request{Op: opMoveDir, Name: from, To: to, Seq: seq, Ours: ours, Over: over})
}

// Moving implements remote.Remote.
func (f *Far) Moving(uint64) bool { return false }

// Mkdir implements remote.Remote.
func (f *Far) Mkdir(name string, mode uint32) error {
	return f.do(request{Op: opMkdir, Name: name, Mode: mode})
}

// Rmdir implements remote.Remote.
func (f *Far) Rmdir(name string) error { return f.do(request{Op: opRmdir, Name: name}) }

// Symlink implements remote.Remote.
func (f *Far) Symlink(target, name string) error {
	return f.do(request{Op: opSymlink, Name: name, To: target})
}

// SetAttr implements remote.Remote.
func (f *Far) SetAttr(name string, seq uint64, ours remote.Version, mode uint32, mtime int64) (remote.Version, error) {
	r, _, err := f.ask(request{Op: opSetAttr, Name: name, Seq: seq, Ours: ours, Mode: mode, Mtime: mtime}, nil)
	return r.Version, err
}

// Record implements remote.Remote.
func (f *Far) Record() ([]byte, error) {
	r, _, err := f.ask(request{Op: opRecord}, nil)
	if err == nil && remote.Names(r.Raw, f.volume) {
		f.setClaimed(true)
	}
	return r.Raw, err
}

func (f *Far) setClaimed(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claimed = is
}

// SetRecord implements remote.Remote.
func (f *Far) SetRecord(raw []byte) error {
	err := f.do(request{Op: opSetRecord, Raw: raw})
	if err == nil {
		f.setClaimed(true)
	}
	return err
}

// ReplaceRecord implements remote.Remote.
func (f *Far) ReplaceRecord(old, raw []byte) error {
	err := f.do(request{Op: opReplace, Old: old, Raw: raw})
	if err == nil {
		f.setClaimed(true)
	}
	return err
}

// Keep implements remote.Remote.
func (f *Far) Keep(from, to string, ours remote.Version) error {
	return f.do(request{Op: opKeep, Name: from, To: to, Ours: ours})
}

// RemoveRecord implements remote.Remote.
func (f *Far) RemoveRecord() error {
	f.setClaimed(false)
	return f.do(request{Op: opRemoveRecord})
}

// RecordPath implements remote.Remote.
func (f *Far) RecordPath() string { return f.at(remote.RecordName) }

// source is a file of the host that is being read.
type source struct {
	f       *Far
	name    string
	version remote.Version
}

// Open implements remote.Remote.
func (f *Far) Open(name string) (remote.Source, error) {
	e, err := f.Stat(name)
	if err != nil {
		return nil, err
	}
	return &source{f, name, e.Version}, nil
}

// Known implements remote.Remote: the host compares versions at each read.
func (f *Far) Known(name string, v remote.Version) remote.Source { return &source{f, name, v} }

// Version implements remote.Source.
func (s *source) Version() remote.Version { return s.version }

// Now implements remote.Source.
func (s *source) Now() (remote.Version, error) {
	e, err := s.f.Stat(s.name)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return e.Version, err
}

// Read implements remote.Source.
func (s *source) Read(ctx context.Context, p []byte, off int64) (int, error) {
	size := min(int64(len(p)), mostRead)
	if err := s.f.rate.Wait(ctx, int(size)); err != nil {
		return 0, err
	}
	_, data, err := s.f.ask(request{Op: opRead, Name: s.name, Ours: s.version, Off: off, Size: size}, nil)
	return copy(p, data), err
}

// Close implements remote.Source.
func (s *source) Close() error { return nil }
