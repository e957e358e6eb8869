package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/hashicorp/yamux"
)

func TestVersionsOfBothEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		client Protocol
		kind   core.Kind
	}{
		{"an older version", Protocol{"test", 6}, core.Unsupported},
		{"a newer version", Protocol{"test", 8}, core.Unsupported},
		{"another protocol", Protocol{"toast", 7}, core.Unsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := ends(t)
			far, err := NewPeer(b, false, "client", wire.Prompt, testProtocol)
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- far.Serve(context.Background(), testServer(), Caller{Role: Controller}) }()
			p, err := Dial(a, "server", wire.Prompt, c.client)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			begun := time.Now()
			if _, err := Call(context.Background(), p, double, number{1}); !core.IsKind(err, c.kind) || core.Remedy(err) == "" {
				t.Errorf("the client got %v (%v)", err, core.KindOf(err))
			}
			p.Close()
			if err := <-served; !core.IsKind(err, c.kind) || core.Remedy(err) == "" {
				t.Errorf("the server got %v (%v)", err, core.KindOf(err))
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestStrangersGreetings(t *testing.T) {
	for _, greeting := range []string{
		strings.Repeat("x", greetingSize), "BEE rpc/" + strings.Repeat("9", greetingSize), strings.Repeat("\x00", greetingSize),
		"BEE rpc/1 test/7" + strings.Repeat(" ", greetingSize-16), "SSH-2.0-OpenSSH_9.2p1\r\n" + strings.Repeat(" ", greetingSize),
	} {
		err := testProtocol.refuse([]byte(greeting)[:greetingSize], "a stranger")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", greeting, err)
		}
	}
	if err := testProtocol.refuse(testProtocol.greeting(), "us"); err != nil {
		t.Error(err)
	}
}

// raw speaks yamux with a server by hand.
func raw(t testing.TB) *yamux.Session {
	t.Helper()
	a, b := ends(t)
	far, err := NewPeer(b, false, "client", wire.Local, testProtocol)
	if err != nil {
		t.Fatal(err)
	}
	go far.Serve(context.Background(), testServer(), Caller{Role: Controller})
	if _, err := a.Write(testProtocol.greeting()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(a, make([]byte, greetingSize)); err != nil {
		t.Fatal(err)
	}
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	s, err := yamux.Client(a, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func request(name, params string) []byte {
	return appendFrame(append([]byte{byte(len(name))}, name...), []byte(params))
}

// answerTo gives the failure with which bytes of a caller are answered.
func answerTo(t testing.TB, s *yamux.Session, sent []byte) Failure {
	t.Helper()
	st, err := s.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Write(sent); err != nil {
		t.Fatal(err)
	}
	st.SetReadDeadline(time.Now().Add(time.Minute))
	kind := make([]byte, 1)
	if _, err := io.ReadFull(st, kind); err != nil {
		t.Fatal(err)
	}
	answer, err := readFrame(st, maxFailure)
	if err != nil {
		t.Fatal(err)
	}
	if kind[0] == answerReply {
		return Failure{}
	}
	var f Failure
	if err := decode(answer, &f); err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	return f
}

func TestHostileRequests(t *testing.T) {
	s := raw(t)
	for _, c := range []struct {
		name string
		sent []byte
		kind core.Kind
	}{
		{"unknown fields", request("double", `{"n":1,"m":2}`), core.Invalid},
		{"data behind the request", request("double", `{"n":1} {"n":2}`), core.Invalid},
		{"a list in place of an object", request("double", `[1]`), core.Invalid},
		{"a number out of range", request("double", `{"n":1e99}`), core.Invalid},
		{"no JSON", request("double", "\x00\xff"), core.Invalid},
		{"nothing", request("double", ""), core.Invalid},
		{"nested deep", request("double", strings.Repeat("[", 100000)), core.Invalid},
		{"a length that is too much", binary.BigEndian.AppendUint32([]byte("\x06double"), 1<<31), core.Invalid},
		{"no name", []byte{0}, core.Invalid},
		{"a name that is too long", append([]byte{255}, bytes.Repeat([]byte("x"), 255)...), core.Invalid},
		{"a name that controls a terminal", request("\x1b[2J", "{}"), core.Unsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := answerTo(t, s, c.sent)
			if f.Kind != c.kind.String() || strings.ContainsRune(f.Message, '\x1b') {
				t.Fatalf("got %+v", f)
			}
		})
	}
	if f := answerTo(t, s, request("double", `{"n":1}`)); f != (Failure{}) {
		t.Fatalf("afterwards: %+v", f)
	}
}

// TestHostileAnswers: a client gets an error, and neither hangs nor crashes.
func TestHostileAnswers(t *testing.T) {
	long := appendFrame([]byte{answerFailure}, []byte(`{"kind":"busy","message":"`+strings.Repeat("x", maxMessage+1)+`"}`))
	for _, c := range []struct {
		name string
		sent []byte
		kind core.Kind
	}{
		{"no answer", nil, core.Lost},
		{"half an answer", []byte{answerReply, 0, 0}, core.Lost},
		{"another kind of answer", []byte("HTTP/1.1 200 OK\r\n"), core.Invalid},
		{"a length that is too much", []byte{answerReply, 255, 255, 255, 255}, core.Invalid},
		{"unknown fields", appendFrame([]byte{answerReply}, []byte(`{"n":1,"x":1}`)), core.Invalid},
		{"a value out of range", appendFrame([]byte{answerReply}, []byte(`{"n":-1}`)), core.Invalid},
		{"a failure of an unknown kind", appendFrame([]byte{answerFailure}, []byte(`{"kind":"odd","message":"x"}`)), core.Invalid},
		{"a failure that is none", appendFrame([]byte{answerFailure}, []byte(`{}`)), core.Invalid},
		{"a failure that is too long", long, core.Invalid},
		{"a failure", appendFrame([]byte{answerFailure}, []byte(`{"kind":"busy","message":"\u001b[2J"}`)), core.Busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := ends(t)
			p, err := Dial(a, "server", wire.Local, testProtocol)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			b.Write(testProtocol.greeting())
			if _, err := io.ReadFull(b, make([]byte, greetingSize)); err != nil {
				t.Fatal(err)
			}
			s, err := yamux.Server(b, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			go func() {
				if st, err := s.AcceptStream(); err == nil {
					st.Write(c.sent)
					st.Close()
				}
			}()
			_, err = Call(context.Background(), p, double, number{1})
			if !core.IsKind(err, c.kind) || strings.ContainsRune(err.Error(), '\x1b') {
				t.Fatalf("got %v (%v)", err, core.KindOf(err))
			}
		})
	}
}

func TestFailure(t *testing.T) {
	if Fail(nil).Err() != nil {
		t.Error("no error became one")
	}
	err := Fail(&core.Error{Kind: core.Lost, Err: errors.New(strings.Repeat("\x01", 3*maxMessage)), Remedy: "Do."}).Err()
	if !core.IsKind(err, core.Lost) || core.Remedy(err) != "Do." || len(err.Error()) > maxMessage {
		t.Errorf("got %v", core.KindOf(err))
	}
	if raw, err := encode(Fail(errors.New(strings.Repeat("<", 3*maxMessage))), maxFailure); err != nil {
		t.Errorf("%d bytes: %v", len(raw), err)
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add(testProtocol.greeting())
	f.Add([]byte("BEE rpc/1 a/b/9"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := testProtocol.refuse(raw, "x"); err == nil && !bytes.Equal(raw, testProtocol.greeting()) {
			t.Fatalf("%q was accepted", raw)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"n":1}`, `{"n":-1}`, `[[[`, `{"n":1}x`, `"\"`, `{"a":{"b":[]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var n number
		if decode(raw, &n) == nil && n.N < 0 {
			t.Fatalf("%q passed", raw)
		}
		var fail Failure
		if decode(raw, &fail) == nil && len(fail.Message) > maxMessage {
			t.Fatalf("%q passed", raw)
		}
		var any struct {
			List []any          `json:"list"`
			Map  map[string]any `json:"map"`
		}
		decode(raw, &any) //nolint:errcheck // it must end, no more
	})
}

// FuzzServe sends a server whatever comes, by a stream.
func FuzzServe(f *testing.F) {
	f.Add(request("double", `{"n":1}`))
	f.Add(request("short", `{"text":"x"}`))
	f.Add([]byte{6, 'd'})
	s := raw(f)
	f.Fuzz(func(t *testing.T, sent []byte) {
		if s.IsClosed() {
			t.Fatal("the connection ended")
		}
		st, err := s.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		st.Write(sent)
		st.Close()
		st.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		io.CopyN(io.Discard, st, 1<<20)
	})
}
