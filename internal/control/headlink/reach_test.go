package headlink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/wire"
)

// fakeHead is a head of which only its addresses are asked for.
type fakeHead struct {
	Head
	answer func(context.Context) error
}

func (h *fakeHead) Addresses(ctx context.Context) ([]string, error) { return nil, h.answer(ctx) }

// TestReach: a head that is late, breaks off, is silent or does not come up at all.
func TestReach(t *testing.T) {
	nobody := &core.Error{Kind: core.NotFound, Err: errors.New("nobody listens")}
	noRoute := &core.Error{Kind: core.Transient, Err: errors.New("no route")}
	stranger := &core.Error{Kind: core.Lost, Err: errors.New("another process answers")}
	const limit = 20 * time.Second
	for name, c := range map[string]struct {
		dials    []error // one for each try, then connections
		connects []error // one for each connection, then a head
		ended    bool    // the process of the head
		stopAt   time.Duration
		kind     core.Kind // 0: the head is reached
		is       error
		within   time.Duration
	}{
		"it listens":                       {within: time.Millisecond},
		"it comes up late":                 {dials: []error{nobody, nobody, nobody, nobody, nobody, nobody, nobody, nobody}, within: time.Second},
		"it breaks off twice":              {connects: []error{io.ErrUnexpectedEOF, io.EOF}, within: time.Second},
		"it proves nothing once":           {connects: []error{context.DeadlineExceeded}, within: time.Second},
		"it proves nothing":                {connects: []error{context.DeadlineExceeded, context.DeadlineExceeded}, kind: core.Lost, within: time.Second},
		"silent, broken, silent":           {connects: []error{context.DeadlineExceeded, io.EOF, context.DeadlineExceeded}, kind: core.Lost, within: time.Second},
		"another process answers":          {connects: []error{stranger}, kind: core.Lost, is: stranger, within: time.Millisecond},
		"there is no route to the host":    {dials: []error{noRoute}, kind: core.Transient, is: noRoute, within: time.Millisecond},
		"it ended before it listened":      {dials: always(nobody), ended: true, kind: core.Lost, within: time.Second},
		"it does not come up":              {dials: always(nobody), kind: core.Lost, within: limit + time.Second},
		"it breaks off each time":          {connects: always(io.EOF), kind: core.Lost, within: limit + time.Second},
		"nobody waits for it any more":     {dials: always(nobody), stopAt: time.Second, is: context.Canceled, within: time.Second},
		"nobody waits while it breaks off": {connects: always(io.EOF), stopAt: time.Second, is: context.Canceled, within: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.stopAt > 0 {
					time.AfterFunc(c.stopAt, cancel)
				}
				head := &fakeHead{}
				l := &fakeLease{dial: func() (net.Conn, error) {
					if err := next(&c.dials); err != nil {
						return nil, err
					}
					near, far := net.Pipe()
					far.Close()
					return near, nil
				}}
				begun := time.Now()
				got, err := Reach(ctx, l, limit, func(_ context.Context, conn net.Conn) (Head, error) {
					defer conn.Close()
					if err := next(&c.connects); err != nil {
						return nil, err
					}
					return head, nil
				}, func(context.Context) (bool, string) { return c.ended, "it does not answer" })
				if took := time.Since(begun); took > c.within {
					t.Errorf("it took %v, expected %v at most", took, c.within)
				}
				switch {
				case c.kind == 0 && c.is == nil:
					if err != nil || got != Head(head) {
						t.Errorf("got %v, %v", got, err)
					}
				case err == nil || core.KindOf(err) != c.kind || c.is != nil && !errors.Is(err, c.is):
					t.Errorf("got %v of kind %v, expected kind %v", err, core.KindOf(err), c.kind)
				case c.kind == core.Lost && c.is == nil && core.Remedy(err) == "":
					t.Errorf("%v has no remedy", err)
				case c.ended && !strings.Contains(core.Remedy(err), "`bee logs --node 0 r1`"): // it can be typed as it stands
					t.Errorf("%v names no log: %s", err, core.Remedy(err))
				}
			})
		})
	}
}

// always is an error of every try.
func always(err error) []error {
	list := make([]error, 100000)
	for i := range list {
		list[i] = err
	}
	return list
}

// next takes the first of a list.
func next(list *[]error) error {
	if len(*list) == 0 {
		return nil
	}
	err := (*list)[0]
	*list = (*list)[1:]
	return err
}

// TestSecureByKey: only a node that has the attempt's key is believed, and no connection is
// left of another.
func TestSecureByKey(t *testing.T) {
	key, other := wire.Key(bytes.Repeat([]byte{1}, wire.KeySize)), wire.Key(bytes.Repeat([]byte{2}, wire.KeySize))
	serve := func(k wire.Key, rank int) func(context.Context, net.Conn) {
		return func(ctx context.Context, c net.Conn) {
			k.Server(ctx, c, protocol.NodeName(rank), protocol.ControllerName) //nolint:errcheck // the other end reports it
		}
	}
	for name, c := range map[string]struct {
		far  func(context.Context, net.Conn)
		kind core.Kind // of a loss; 0: none
		ok   bool
	}{
		"the node":             {far: serve(key, 0), ok: true},
		"one with another key": {far: serve(other, 0), kind: core.Lost},
		"another node":         {far: serve(key, 1), kind: core.Lost},
		"one that closes":      {far: func(_ context.Context, c net.Conn) { c.Close() }},
		"one that speaks no TLS": {far: func(ctx context.Context, c net.Conn) {
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			<-ctx.Done()
		}, kind: core.Lost},
		"a silent one":             {far: func(ctx context.Context, _ net.Conn) { <-ctx.Done() }},
		"one that breaks off late": {far: func(_ context.Context, c net.Conn) { io.CopyN(io.Discard, c, 100); c.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			near, far := connected(t)
			done := make(chan struct{})
			if name == "a silent one" {
				time.AfterFunc(50*time.Millisecond, cancel) // nobody waits any more
			}
			go func() { defer close(done); c.far(ctx, far) }()
			conn, err := SecureByKey(ctx, near, key, 0)
			if (err == nil) != c.ok || err != nil && core.IsKind(err, core.Lost) != (c.kind == core.Lost) {
				t.Errorf("got %v", err)
			}
			if c.kind == core.Lost && core.Remedy(err) == "" {
				t.Errorf("%v has no remedy", err)
			}
			if conn != nil {
				conn.Close()
			}
			cancel()
			<-done
			if _, err := near.Write([]byte{0}); err == nil {
				t.Error("the connection is open still")
			}
		})
	}
}

// connected returns the ends of a connection, which has buffers as those of hosts have.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// TestConnecting: a connection that is not secured is not used.
func TestConnecting(t *testing.T) {
	insecure := errors.New("not proven")
	for name, fails := range map[string]error{"secured": nil, "not secured": insecure} {
		asked := false
		near, far := net.Pipe()
		connect := Connecting(func(_ context.Context, c net.Conn, key []byte, rank int) (net.Conn, error) {
			if string(key) != "key" || rank != 0 {
				t.Errorf("%s: key %q of node %d", name, key, rank)
			}
			return c, fails
		}, func(net.Conn) (Head, error) { asked = true; return &fakeHead{}, nil }, []byte("key"))
		if _, err := connect(t.Context(), near); !errors.Is(err, fails) || asked != (fails == nil) {
			t.Errorf("%s: %v, asked %v", name, err, asked)
		}
		near.Close()
		far.Close()
	}
}

// TestHangs: a head that takes a connection and says nothing, and none that answers or
// whose connection breaks.
func TestHangs(t *testing.T) {
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		answer func(context.Context) error
		want   bool
	}{
		"it answers":      {func(context.Context) error { return nil }, false},
		"it answers late": {func(ctx context.Context) error { return core.Sleep(ctx, AnswerTimeout-time.Millisecond) }, false},
		"it breaks off":   {func(context.Context) error { return io.EOF }, false},
		"it is silent":    {silent, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			if got := Hangs(t.Context(), &fakeHead{answer: c.answer}); got != c.want {
				t.Errorf("%s: %v", name, got)
			}
			if took := time.Since(begun); took > AnswerTimeout {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// TestGone: only a site that knows it says that a process has ended.
func TestGone(t *testing.T) {
	for name, c := range map[string]struct {
		alive bool
		err   error
		want  bool
	}{
		"it runs":                  {true, nil, false},
		"it has ended":             {false, nil, true},
		"the site does not answer": {false, errors.New("no route"), false},
	} {
		got, why := Gone(t.Context(), &fakeLease{alive: func() (bool, error) { return c.alive, c.err }})
		if got != c.want || why == "" {
			t.Errorf("%s: %v, %q", name, got, why)
		}
	}
}
