package burst

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// absent is a remote that is away for the first calls of one of its methods.
type absent struct {
	remote.Remote
	method string
	mu     sync.Mutex
	left   int
	met    int // calls of the method
}

// away is the error of a call: its cause reads like an answer of the remote.
func (a *absent) away(method string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if method != a.method {
		return nil
	}
	if a.met++; a.left <= 0 {
		return nil
	}
	a.left--
	return remote.Away(fs.ErrNotExist)
}

func (a *absent) Stat(name string) (remote.Entry, error) {
	if err := a.away("Stat"); err != nil {
		return remote.Entry{}, err
	}
	return a.Remote.Stat(name)
}

func (a *absent) List(dir string) ([]remote.Entry, error) {
	if err := a.away("List"); err != nil {
		return nil, err
	}
	return a.Remote.List(dir)
}

func (a *absent) Space() (total, free int64, err error) {
	if err := a.away("Space"); err != nil {
		return 0, 0, err
	}
	return a.Remote.Space()
}

func (a *absent) Ensure(dir string) error {
	if err := a.away("Ensure"); err != nil {
		return err
	}
	return a.Remote.Ensure(dir)
}

func (a *absent) Write(ctx context.Context, name string, ino uint64, c remote.Content) (string, remote.Version, error) {
	if err := a.away("Write"); err != nil {
		return "", remote.Version{}, err
	}
	return a.Remote.Write(ctx, name, ino, c)
}

func (a *absent) Publish(partial, name string, ours, expect remote.Version) (remote.Version, error) {
	if err := a.away("Publish"); err != nil {
		return remote.Version{}, err
	}
	return a.Remote.Publish(partial, name, ours, expect)
}

func (a *absent) Remove(name string, ino uint64, v remote.Version) error {
	if err := a.away("Remove"); err != nil {
		return err
	}
	return a.Remote.Remove(name, ino, v)
}

func (a *absent) Move(from, to string, seq uint64, ours, expect remote.Version) (remote.Version, error) {
	if err := a.away("Move"); err != nil {
		return remote.Version{}, err
	}
	return a.Remote.Move(from, to, seq, ours, expect)
}

func (a *absent) Mkdir(name string, mode uint32) error {
	if err := a.away("Mkdir"); err != nil {
		return err
	}
	return a.Remote.Mkdir(name, mode)
}

func (a *absent) SetAttr(name string, seq uint64, ours remote.Version, mode uint32, mtime int64) (remote.Version, error) {
	if err := a.away("SetAttr"); err != nil {
		return remote.Version{}, err
	}
	return a.Remote.SetAttr(name, seq, ours, mode, mtime)
}

func (a *absent) Open(name string) (remote.Source, error) {
	if err := a.away("Open"); err != nil {
		return nil, err
	}
	s, err := a.Remote.Open(name)
	if err != nil {
		return nil, err
	}
	return &absentSource{s, a}, nil
}

type absentSource struct {
	remote.Source
	of *absent
}

func (s *absentSource) Now() (remote.Version, error) {
	if err := s.of.away("Now"); err != nil {
		return remote.Version{}, err
	}
	return s.Source.Now()
}

func (s *absentSource) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if err := s.of.away("Read"); err != nil {
		return 0, err
	}
	return s.Source.Read(ctx, p, off)
}

// TestAwayCostsWaiting: whatever the remote does not answer, no program gets an error, and everything arrives.
func TestAwayCostsWaiting(t *testing.T) {
	for _, method := range []string{"Stat", "List", "Space", "Open", "Read", "Now", "Ensure", "Write", "Publish", "Remove", "Move", "Mkdir", "SetAttr"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			far := &absent{method: method, left: 2}
			b := &bench{T: t, far: t.TempDir(), gate: &gate{}}
			for _, name := range []string{"read", "written", "truncated", "mode", "moved", "removed"} {
				b.foreign(name, "text")
			}
			b = begin(b, Options{At: remote.Place{Host: "h"}, Far: func(_ remote.Place, o remote.Options) (r remote.Remote, err error) {
				far.Remote, err = remote.Open(remote.Place{Dir: b.far}, o)
				return far, err
			}})
			h := &handler{volume: b.Volume, client: 1}
			ask := func(q calls.Request) *calls.Reply {
				p := h.answer(t.Context(), &q)
				if p.Errno != 0 {
					t.Errorf("request %d of %q gets %v", q.Op, q.Name, syscall.Errno(p.Errno))
				}
				return p
			}
			open := func(name string) uint64 {
				ino := ask(calls.Request{Op: calls.Lookup, Ino: meta.Root, Name: name}).Attr.Ino
				ask(calls.Request{Op: calls.OpenOp, Ino: ino, Flags: calls.Writing})
				return ino
			}
			ask(calls.Request{Op: calls.List, Ino: meta.Root})
			ask(calls.Request{Op: calls.Space, Ino: meta.Root})
			if got := ask(calls.Request{Op: calls.Read, Ino: open("read"), Size: 10}); string(got.Data) != "text" {
				t.Errorf("read %q", got.Data)
			}
			for _, q := range []calls.Request{
				{Op: calls.Write, Ino: open("written"), Data: []byte("TE")},
				{Op: calls.SetAttr, Ino: open("truncated"), Valid: calls.SetSize, Size: 2},
				{Op: calls.SetAttr, Ino: open("mode"), Valid: calls.SetMode, Mode: 0o400},
				{Op: calls.Rename, Ino: meta.Root, Name: "moved", ToDir: meta.Root, ToName: "there"},
				{Op: calls.Remove, Ino: meta.Root, Name: "removed"},
				{Op: calls.Mkdir, Ino: meta.Root, Name: "d", Mode: 0o755},
			} {
				ask(q)
				if q.Op == calls.Write || q.Valid == calls.SetSize {
					ask(calls.Request{Op: calls.Flush, Ino: q.Ino})
				}
			}
			b.drained()
			b.has(map[string]string{"d": directory, "mode": "text", "read": "text", "there": "text", "truncated": "te", "written": "TExt"})
			if s := b.Status(); len(s.Conflicts) > 0 || strings.Contains(s.Waits, "away") {
				t.Errorf("%+v", s)
			}
			if far.met == 0 || far.left > 0 {
				t.Errorf("it was called %d times, and would have failed %d times more", far.met, far.left)
			}
		})
	}
}

// TestErrorsOfTheWay: a program or a socket that is missing on the way to the remote is no answer of that.
func TestErrorsOfTheWay(t *testing.T) {
	for _, cause := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, fs.ErrClosed, syscall.ENOTDIR, syscall.EROFS, &os.PathError{Op: "fork/exec", Path: "ssh", Err: syscall.ENOENT}} {
		if err := remote.Away(cause); !passing(err) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v counts as an answer", cause)
		}
	}
	if passing(remote.Away(context.Canceled)) {
		t.Error("a process that ends asks again")
	}
}
