package sshlink

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// count is the size of data in a test's calls.
type count int64

// Check implements the check of package rpc.
func (count) Check() error { return nil }

// sum is a digest of data.
type sum []byte

// Check implements the check of package rpc.
func (sum) Check() error { return nil }

// The calls of the tests' agent, which sends or receives data on the call's stream.
var (
	callSink   = rpc.Method[count, rpc.None]{Name: "sink", By: rpc.Controller}
	callSource = rpc.Method[count, rpc.None]{Name: "source", By: rpc.Controller}
)

// pattern is data without end, of which no part is zero for long.
type pattern struct{ at byte }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		p.at += 41
		b[i] = p.at ^ byte(i>>8)
	}
	return len(b), nil
}

func registerTests(s *rpc.Server, _ *RendezvousTable) {
	rpc.HandleStream(s, callSink, func(_ context.Context, _ rpc.Caller, n count, to rpc.Answer[rpc.None]) error {
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		h := sha256.New()
		if _, err := io.CopyN(h, to, int64(n)); err != nil {
			return err
		}
		return rpc.Send(to, sum(h.Sum(nil)), rpc.DefaultSize)
	})
	rpc.HandleStream(s, callSource, func(_ context.Context, _ rpc.Caller, n count, to rpc.Answer[rpc.None]) error {
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		_, err := io.CopyN(to, &pattern{}, int64(n))
		return err
	})
}

// TestMain makes the test binary the agent on a host, as the bee binary is in real use.
func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == RemoteArg {
		os.Exit(Serve(registerTests))
	}
	os.Exit(m.Run())
}

// client returns one that reaches the hosts of a farm.
func client(t testing.TB, f *sshfarm.Farm) *Client {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	return New(Settings{Program: filepath.Join(f.Bin, "ssh"), BinaryFor: func(arch string) (string, error) {
		if arch == runtime.GOARCH {
			return self, nil
		}
		return "", os.ErrNotExist
	}})
}

// login logs in to a host once.
func login(t testing.TB, p *Client, host string) {
	t.Helper()
	l, err := p.Connect(t.Context(), host)
	must(t, err)
	must(t, l.Close())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
