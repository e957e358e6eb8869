package client

import (
	"net"
	"testing"

	"github.com/bee-hpc/bee/internal/wire"
)

// around is a connection that someone has put around another one.
type around struct{ net.Conn }

func (a around) NetConn() net.Conn { return a.Conn }

// TestWhoGoesOverAnotherConnectionIsTolerant, whatever is around it.
func TestWhoGoesOverAnotherConnectionIsTolerant(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	for _, c := range []struct {
		conn net.Conn
		want wire.Liveness
	}{{&wire.Stream{}, wire.Tolerant}, {around{&wire.Stream{}}, wire.Tolerant}, {ours, wire.Prompt}, {around{ours}, wire.Prompt}} {
		if got := livenessOver(c.conn); got != c.want {
			t.Errorf("%T: %v", c.conn, got)
		}
	}
}
