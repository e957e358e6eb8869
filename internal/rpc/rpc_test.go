package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
)

type number struct {
	N int `json:"n"`
}

func (n number) Check() error {
	if n.N < 0 {
		return &core.Error{Kind: core.Invalid, Err: errors.New("it is negative")}
	}
	return nil
}

type text struct {
	Text string `json:"text"`
}

var (
	testProtocol = Protocol{"test", 7}
	double       = Method[number, number]{Name: "double", By: Controller}
	negate       = Method[number, number]{Name: "negate", By: Controller}
	echo         = Method[None, None]{Name: "echo", By: Controller}
	fails        = Method[None, None]{Name: "fails", By: Controller | Head}
	panics       = Method[None, None]{Name: "panics", By: Controller}
	silent       = Method[None, None]{Name: "silent", By: Controller, Within: 50 * time.Millisecond}
	waits        = Method[None, None]{Name: "waits", By: Controller, Within: Unlimited}
	forHead      = Method[None, None]{Name: "for-head", By: Head}
	short        = Method[text, text]{Name: "short", By: Controller, Request: 100, Reply: 200}
	unknownCall  = Method[None, None]{Name: "unknown", By: Controller}
)

func testServer() *Server {
	s := NewServer(nil)
	Handle(s, double, func(_ context.Context, _ Caller, r number) (number, error) { return number{2 * r.N}, nil })
	Handle(s, negate, func(_ context.Context, _ Caller, r number) (number, error) { return number{-r.N}, nil })
	HandleStream(s, echo, func(_ context.Context, _ Caller, _ None, a Answer[None]) error {
		if err := a.Reply(None{}); err != nil {
			return err
		}
		_, err := io.Copy(a, a)
		return err
	})
	Handle(s, fails, func(context.Context, Caller, None) (None, error) {
		return None{}, &core.Error{Kind: core.Busy, Op: "do", Object: "it\x1b[2J", Err: errors.New("not now"), Remedy: "Wait.\a"}
	})
	Handle(s, panics, func(context.Context, Caller, None) (None, error) { panic("a fault") })
	wait := func(ctx context.Context, _ Caller, _ None) (None, error) { <-ctx.Done(); return None{}, nil }
	Handle(s, silent, wait)
	Handle(s, waits, wait)
	Handle(s, forHead, func(context.Context, Caller, None) (None, error) { return None{}, nil })
	Handle(s, short, func(_ context.Context, _ Caller, r text) (text, error) {
		return text{strings.Repeat(r.Text, 100)}, nil
	})
	return s
}

// ends gives both ends of a real connection.
func ends(t testing.TB) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// served gives the client of a server.
func served(t *testing.T, s *Server, from Caller) *Peer {
	t.Helper()
	a, b := ends(t)
	far, err := NewPeer(b, false, "client", wire.Prompt, testProtocol)
	if err != nil {
		t.Fatal(err)
	}
	go far.Serve(context.Background(), s, from)
	p, err := Dial(a, "server", wire.Prompt, testProtocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestCalls(t *testing.T) {
	ctx, p := context.Background(), served(t, testServer(), Caller{Role: Controller})
	t.Run("a reply comes back", func(t *testing.T) {
		if out, err := Call(ctx, p, double, number{21}); err != nil || out.N != 42 {
			t.Fatalf("got %v, %v", out, err)
		}
	})
	t.Run("an error keeps kind and remedy, and loses control characters", func(t *testing.T) {
		_, err := Call(ctx, p, fails, None{})
		if !core.IsKind(err, core.Busy) || core.Remedy(err) != `Wait.\a` || strings.ContainsAny(err.Error(), "\x1b\a") {
			t.Fatalf("got %v (%v, %q)", err, core.KindOf(err), core.Remedy(err))
		}
	})
	t.Run("a panic ends its call alone", func(t *testing.T) {
		if _, err := Call(ctx, p, panics, None{}); !core.IsKind(err, core.Permanent) {
			t.Fatalf("got %v", err)
		}
		if out, err := Call(ctx, p, double, number{1}); err != nil || out.N != 2 {
			t.Fatalf("then got %v, %v", out, err)
		}
	})
	for name, call := range map[string]func() error{
		"a request that does not pass its check": func() error { _, err := Call(ctx, p, double, number{-1}); return err },
		"a reply that does not pass its check":   func() error { _, err := Call(ctx, p, negate, number{1}); return err },
		"a request that is too long":             func() error { _, err := Call(ctx, p, short, text{strings.Repeat("x", 200)}); return err },
		"a reply that is too long":               func() error { _, err := Call(ctx, p, short, text{"abc"}); return err },
		"a caller who may not":                   func() error { _, err := Call(ctx, p, forHead, None{}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			if err := call(); !core.IsKind(err, core.Invalid) {
				t.Fatalf("got %v (%v)", err, core.KindOf(err))
			}
		})
	}
	t.Run("a call that there is not", func(t *testing.T) {
		if _, err := Call(ctx, p, unknownCall, None{}); !core.IsKind(err, core.Unsupported) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("an answer that does not come in time", func(t *testing.T) {
		if _, err := Call(ctx, p, silent, None{}); !core.IsKind(err, core.Transient) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("a cancelled call returns at once", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		if _, err := Call(ctx, p, waits, None{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("a storm of calls", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				if out, err := Call(ctx, p, double, number{i}); err != nil || out.N != 2*i {
					t.Errorf("call %d: %v, %v", i, out, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestStreams(t *testing.T) {
	ctx, p := context.Background(), served(t, testServer(), Caller{Role: Controller})
	t.Run("raw bytes both ways", func(t *testing.T) {
		s, _, err := Open(ctx, p, echo, None{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want := bytes.Repeat([]byte("0123456789"), 1<<20)
		go s.Write(want)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("echo differs: %v", err)
		}
	})
	t.Run("what is written before the answer arrives", func(t *testing.T) {
		s, err := Begin(ctx, p, echo, None{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want := bytes.Repeat([]byte("0123456789"), 1<<13)
		got := make([]byte, len(want))
		if _, err := s.Write(want); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("echo differs: %v", err)
		}
	})
	t.Run("whoever writes before a refusal learns of it", func(t *testing.T) {
		s, err := Begin(ctx, p, fails, None{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Write(make([]byte, 1<<20)); !core.IsKind(err, core.Busy) {
			t.Fatalf("writing much: %v", err)
		}
		if _, err := s.Read(make([]byte, 1)); !core.IsKind(err, core.Busy) {
			t.Fatalf("reading: %v", err)
		}
		if _, err := Answered[None](s); !core.IsKind(err, core.Busy) {
			t.Fatalf("the answer: %v", err)
		}
	})
	t.Run("messages behind the answer", func(t *testing.T) {
		s, _, err := Open(ctx, p, echo, None{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, n := range []int{3, -3} {
			if err := Send(s, number{n}, 100); err != nil {
				t.Fatal(err)
			}
		}
		if m, err := Receive[number](s, 100); err != nil || m.N != 3 {
			t.Fatalf("got %v, %v", m, err)
		}
		if _, err := Receive[number](s, 100); !core.IsKind(err, core.Invalid) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestCallsBothWays: a server calls those who have connected to it.
func TestCallsBothWays(t *testing.T) {
	back := Method[number, number]{Name: "back", By: Node}
	s := NewServer(nil)
	Handle(s, back, func(ctx context.Context, c Caller, r number) (number, error) {
		if c.Rank != 3 {
			return number{}, errors.New("another rank")
		}
		return Call(ctx, c.Peer, double, r)
	})
	a, b := ends(t)
	far, err := NewPeer(b, false, "node 3", wire.Prompt, testProtocol)
	if err != nil {
		t.Fatal(err)
	}
	go far.Serve(context.Background(), s, Caller{Role: Node, Rank: 3})
	near, err := NewPeer(a, true, "the head", wire.Prompt, testProtocol)
	if err != nil {
		t.Fatal(err)
	}
	go near.Serve(context.Background(), testServer(), Caller{Role: Controller})
	if out, err := Call(context.Background(), near, back, number{4}); err != nil || out.N != 8 {
		t.Fatalf("got %v, %v", out, err)
	}
}

func TestBrokenEndsWithTheCaller(t *testing.T) {
	ended, m := make(chan struct{}), Method[None, None]{Name: "wait", By: Controller}
	s := NewServer(nil)
	HandleStream(s, m, func(ctx context.Context, _ Caller, _ None, a Answer[None]) error {
		if err := a.Reply(None{}); err != nil {
			return err
		}
		ctx, cancel := a.Broken(ctx)
		defer cancel()
		<-ctx.Done()
		close(ended)
		return nil
	})
	st, _, err := Open(context.Background(), served(t, s, Caller{Role: Controller}), m, None{})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the handler does not notice that its caller closed the stream")
	}
}

func TestMoreStreamsThanMay(t *testing.T) {
	ctx, p := context.Background(), served(t, testServer(), Caller{Role: Controller})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	refused := make(chan error, 2*maxStreams)
	for range maxStreams + 10 {
		go func() {
			if _, err := Call(ctx, p, waits, None{}); core.IsKind(err, core.Busy) {
				refused <- err
			}
		}()
	}
	for range 10 {
		select {
		case <-refused: //nolint:errcheck // its kind was looked at
		case <-time.After(time.Minute):
			t.Fatal("no call was refused")
		}
	}
}

// TestAServerSettles once each call has its answer, and streams count for nothing.
func TestAServerSettles(t *testing.T) {
	for name, answer := range map[string]error{"a reply": nil, "a refusal": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			s, begun, end := testServer(), make(chan struct{}), make(chan struct{})
			Handle(s, Method[None, None]{Name: "held", By: Controller}, func(context.Context, Caller, None) (None, error) {
				close(begun)
				<-end
				return None{}, answer
			})
			p := served(t, s, Caller{Role: Controller})
			if st, _, err := Open(t.Context(), p, echo, None{}); err != nil {
				t.Fatal(err)
			} else {
				defer st.Close()
			}
			<-s.Settled() // with a stream
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				Call(t.Context(), p, Method[None, None]{Name: "held", By: Controller}, None{}) //nolint:errcheck // that there is an answer counts
			}()
			<-begun
			first, second := s.Settled(), s.Settled()
			select {
			case <-first:
				t.Fatal("it has settled before the answer")
			case <-time.After(50 * time.Millisecond):
			}
			close(end)
			<-first
			<-second
			<-answered
			<-s.Settled()
		})
	}
}
