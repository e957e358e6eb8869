package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// pair gives two peers over a real TCP connection through a relay that can be
// cut without a notice to either end.
func pair(t *testing.T, serve func(*Stream)) (client *Peer, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		p, err := NewPeer(c, false, "client", Prompt)
		if err != nil {
			return
		}
		answerAll(p, serve)
	}()
	through, cut := blackHole(t, l.Addr().String())
	c, err := net.Dial("tcp", through)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPeer(c, true, "server", Prompt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, cut
}

// blackHole relays one connection until it is cut; then bytes vanish.
func blackHole(t *testing.T, to string) (addr string, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		t.Cleanup(func() { a.Close(); b.Close() })
		relay := func(dst, src net.Conn) {
			buf := make([]byte, 32<<10)
			for {
				n, err := src.Read(buf)
				if err != nil {
					return
				}
				select {
				case <-gone:
					continue
				default:
				}
				if _, err := dst.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		go relay(a, b)
		relay(b, a)
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), func() { close(gone) }
}

// answerAll has each stream that comes answered.
func answerAll(p *Peer, serve func(*Stream)) {
	for {
		s, err := p.AcceptStream()
		if err != nil {
			return
		}
		go func() {
			defer s.Close()
			serve(s)
		}()
	}
}

// say opens a stream, and has a word come back.
func say(p *Peer) error {
	s, err := p.OpenStream()
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Write([]byte("x")); err != nil {
		return err
	}
	_, err = io.ReadFull(s, make([]byte, 1))
	return err
}

func echoes(s *Stream) { io.Copy(s, s) }

func TestStreams(t *testing.T) {
	p, _ := pair(t, echoes)
	s, err := p.OpenStream()
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
	var wg sync.WaitGroup
	for range 2000 {
		wg.Go(func() {
			if err := say(p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestCutConnectionIsNoticedWithinSeconds(t *testing.T) {
	t.Parallel()
	p, cut := pair(t, echoes)
	if err := say(p); err != nil {
		t.Fatal(err)
	}
	cut()
	begun := time.Now()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second): // 5 on a machine that is not busy; a Tolerant one takes two minutes
		t.Fatal("not noticed within 30 s")
	}
	t.Logf("noticed after %v", time.Since(begun))
	if err := say(p); !core.IsKind(err, core.Lost) {
		t.Errorf("a stream over a lost connection gives %v", err)
	}
}

func TestTLS(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	identity := func(a *Authority, trust *Authority, name string) *Identity {
		cert, key, err := a.Issue(name)
		if err != nil {
			t.Fatal(err)
		}
		i, err := NewIdentity(trust.Certificate(), cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	head := identity(ours, ours, "node-0")
	for _, c := range []struct {
		name   string
		client *Identity
		want   string // the name that the client wants
		ok     bool
	}{
		{"a node of the run", identity(ours, ours, "node-1"), "node-0", true},
		{"the wrong node answers", identity(ours, ours, "node-1"), "node-2", false},
		{"a stranger's certificate", identity(theirs, ours, "node-1"), "node-0", false},
		{"a stranger's authority", identity(ours, theirs, "node-1"), "node-0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := tls.Listen("tcp", "127.0.0.1:0", head.Server())
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			seen := make(chan error, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					defer conn.Close()
					if err = conn.(*tls.Conn).Handshake(); err == nil {
						_, err = PeerName(conn.(*tls.Conn))
					}
				}
				seen <- err
			}()
			conn, err := tls.Dial("tcp", l.Addr().String(), c.client.Client(c.want))
			if err == nil {
				defer conn.Close()
				if conn.ConnectionState().Version != tls.VersionTLS13 {
					t.Error("not TLS 1.3")
				}
			}
			if serr := <-seen; err == nil {
				err = serr
			}
			if (err == nil) != c.ok {
				t.Fatalf("got %v, want success %v", err, c.ok)
			}
		})
	}
	t.Run("without a certificate", func(t *testing.T) {
		a, b := net.Pipe()
		go func() {
			c := tls.Client(b, &tls.Config{InsecureSkipVerify: true}) // the stranger of the test
			io.Copy(io.Discard, c)
			b.Close()
		}()
		if err := tls.Server(a, head.Server()).Handshake(); err == nil {
			t.Fatal("let in")
		}
	})
}

func TestClocksHaveNoSay(t *testing.T) {
	a := authority(t)
	cert, key, err := a.Issue("node-0")
	if err != nil {
		t.Fatal(err)
	}
	i, err := NewIdentity(a.Certificate(), cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Since(i.Server().Time()).Abs(); off > time.Minute {
		t.Errorf("certificates are judged by a clock that is %v off their making", off)
	}
}

func authority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestUnixSocket(t *testing.T) {
	for _, c := range []struct {
		name string
		path string
	}{
		{"short", filepath.Join(t.TempDir(), "s")},
		{"longer than an address", filepath.Join(t.TempDir(), strings.Repeat("d", 120), "s")},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // the second replaces what the first left
				l, err := ListenUnix(c.path)
				if err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(c.path)
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Fatalf("socket: %v, %v", info.Mode(), err)
				}
				go func() {
					if conn, err := l.Accept(); err == nil {
						conn.Write([]byte("hi"))
						conn.Close()
					}
				}()
				conn, err := DialUnix(context.Background(), c.path)
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := io.ReadAll(conn); string(got) != "hi" {
					t.Fatalf("got %q", got)
				}
				l.Close()
			}
		})
	}
}

func FuzzReadMessage(f *testing.F) {
	var good bytes.Buffer
	if err := WriteMessage(&good, map[string]int{"m": 1}); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{0, 0, 0, 9, '{'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var r map[string]json.RawMessage
		if err := ReadMessage(bytes.NewReader(raw), &r); err != nil {
			return
		}
		var again bytes.Buffer
		if err := WriteMessage(&again, r); err != nil {
			t.Fatal(err)
		}
	})
}
