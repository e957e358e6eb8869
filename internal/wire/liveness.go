package wire

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/hashicorp/yamux"
)

// Liveness says when a silent other end counts as gone. Each end chooses it for
// itself.
type Liveness int

const (
	// Prompt is for control: an end that is dead, hung or cut off is noticed
	// within five seconds.
	Prompt Liveness = iota
	// Tolerant is for connections over links that others fill, or whose ends may
	// be busy: some two minutes.
	Tolerant
	// Local is for sockets of this host, whose kernel reports when the other
	// end dies. An end that is merely stopped (Ctrl-Z) is waited for.
	Local
)

// beats gives how often an end makes itself heard, and after how many such times
// without a sound the other one counts as gone; 0: never.
func (v Liveness) beats() (every time.Duration, silent int) {
	switch v {
	case Prompt:
		return 1250 * time.Millisecond, 3
	case Tolerant:
		return 10 * time.Second, 11
	}
	return 0, 0
}

// Bounds are on what the other end can have this one keep.
type Bounds struct {
	Streams int    // that wait to be accepted
	Window  uint32 // bytes of a stream that wait to be read, at least 256 KiB
}

// NewPeer makes a connection with streams of conn. Exactly one of the two ends is the
// client. name is the other end as messages call it.
func NewPeer(conn io.ReadWriteCloser, client bool, name string, v Liveness) (*Peer, error) {
	b := Bounds{Streams: 1024, Window: 4 << 20} // a storm of calls must not wait for one another
	beneath := conn
	if around, is := conn.(interface{ Beneath() io.ReadWriteCloser }); is {
		beneath = around.Beneath()
	}
	if _, many := beneath.(*ConnPool); many {
		b.Window = poolWindow
	}
	return NewBoundedPeer(conn, client, name, v, b)
}

// NewBoundedPeer is NewPeer with bounds for an end that is not believed. Who opens streams has the same ones: those for
// which there is no room wait then, and are ended else.
func NewBoundedPeer(conn io.ReadWriteCloser, client bool, name string, v Liveness, b Bounds) (*Peer, error) {
	make := yamux.Server
	if client {
		make = yamux.Client
	}
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	c.StreamCloseTimeout = 0
	c.MaxStreamWindowSize, c.AcceptBacklog = b.Window, b.Streams
	// What is sent may wait behind megabytes for a slow line: only silence shows it
	// that the other end is gone.
	c.EnableKeepAlive, c.ConnectionWriteTimeout, c.StreamOpenTimeout = false, 24*time.Hour, 0
	heard := &listened{ReadWriteCloser: conn}
	session, err := make(heard, c)
	if err != nil {
		return nil, err
	}
	if every, silent := v.beats(); every > 0 {
		go keepAlive(session, heard, every, silent)
	}
	return &Peer{session: session, name: name}, nil
}

// listened is a connection that knows whether anything has come over it.
type listened struct {
	io.ReadWriteCloser
	any atomic.Bool
}

func (l *listened) Read(b []byte) (int, error) {
	n, err := l.ReadWriteCloser.Read(b)
	if n > 0 {
		l.any.Store(true)
	}
	return n, err
}

// keepAlive ends a session whose other end is silent for too long, and makes this end
// heard there. No answer is waited for: where bulk data fill a slow line one way, it
// comes late, but what comes the other way is not behind them, and the bulk itself is
// a sound. Beats are counted, and not time: a process that was stopped for a while
// has to hear what came meanwhile first.
func keepAlive(session *yamux.Session, heard *listened, every time.Duration, silent int) {
	beat := time.NewTicker(every)
	defer beat.Stop()
	for missed := 0; missed < silent; {
		select {
		case <-session.CloseChan():
			return
		case <-beat.C:
		}
		if missed++; heard.any.Swap(false) {
			missed = 0
		}
		go func() { core.BestEffort(session.Ping()) }() // no answer is waited for
	}
	session.Close()
}
