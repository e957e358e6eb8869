package sshlink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// wideClient is one whose hosts count as far away.
func wideClient(t *testing.T, idle time.Duration) *Client {
	t.Helper()
	p := client(t, sshfarm.Start(t, 1))
	p.poolPolicy = poolPolicy{window: 1 << 10, every: 10 * time.Millisecond, idle: idle}
	return p
}

const dataSize = 64 << 20

// sendData sends data over a link, and compares what has arrived.
func sendData(ctx context.Context, l *Link) error {
	s, _, err := rpc.Open(ctx, l.Peer, callSink, count(dataSize))
	if err != nil {
		return err
	}
	defer s.Close()
	h := sha256.New()
	if _, err := io.CopyN(s, io.TeeReader(&pattern{}, h), dataSize); err != nil {
		return &core.Error{Kind: core.Lost, Op: "send", Err: err}
	}
	got, err := rpc.Receive[sum](s, rpc.DefaultSize)
	if err == nil && !bytes.Equal(got, h.Sum(nil)) {
		err = errors.New("what has arrived differs")
	}
	return err
}

// receiveData receives data over a link, and compares it.
func receiveData(ctx context.Context, l *Link) error {
	s, _, err := rpc.Open(ctx, l.Peer, callSource, count(dataSize))
	if err != nil {
		return err
	}
	defer s.Close()
	h, want := sha256.New(), sha256.New()
	if _, err := io.CopyN(h, s, dataSize); err != nil {
		return err
	}
	io.CopyN(want, &pattern{}, dataSize)
	if !bytes.Equal(h.Sum(nil), want.Sum(nil)) {
		return errors.New("what has arrived differs")
	}
	return nil
}

// TestATransferGetsMoreConnections while it lasts, either way, and they go afterwards.
func TestATransferGetsMoreConnections(t *testing.T) {
	l, err := wideClient(t, 3*time.Second).Connect(t.Context(), "h0")
	must(t, err)
	defer l.Close()
	testkit.Eventually(t, time.Minute, func() error {
		must(t, sendData(t.Context(), l))
		if n, _ := l.wide.Settled(); n < 2 { // how many more, depends on how fast this machine is now
			return fmt.Errorf("the pool has %d connections", n)
		}
		return nil
	})
	must(t, receiveData(t.Context(), l))
	quiet(t, l)
	must(t, sendData(t.Context(), l))
	quiet(t, l)
}

// quiet waits until a host's connection is one session again: none is left in the
// midst of its login.
func quiet(t *testing.T, k *Link) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		if n, settled := k.wide.Settled(); n != 1 || !settled || len(pooledOf(k)) > 0 {
			return fmt.Errorf("%d connections, and %d sessions more than one", n, len(pooledOf(k)))
		}
		return nil
	})
}

// TestALaneThatIsKilled ends the connection, which is a passing matter, and the next
// connection is whole.
func TestALaneThatIsKilled(t *testing.T) {
	p := wideClient(t, 3*time.Second)
	first, err := p.Connect(t.Context(), "h0")
	must(t, err)
	defer first.Close()
	testkit.Eventually(t, time.Minute, func() error {
		if pooledConns := pooledOf(first); len(pooledConns) > 0 {
			pooledConns[0].cmd.Process.Kill()
		}
		// It is noticed when it is the connection's turn.
		if err := sendData(t.Context(), first); err != nil && !core.IsKind(Transient(err), core.Transient) {
			t.Fatal(err)
		}
		if first.Usable() {
			return errors.New("the connection is still there")
		}
		return nil
	})
	<-first.Done()
	second, err := p.Again(t.Context(), "h0")
	must(t, err)
	defer second.Close()
	if second == first {
		t.Error("the broken connection is used again")
	}
	must(t, sendData(t.Context(), second))
	testkit.Eventually(t, 20*time.Second, func() error {
		if n := len(pooledOf(first)); n > 0 {
			return fmt.Errorf("%d sessions of the broken connection are left", n)
		}
		return nil
	})
	quiet(t, second)
}

func pooledOf(l *Link) []*Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pooledConns
}
