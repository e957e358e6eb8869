package client

import (
	"net"
	"testing"

	"github.com/bee-hpc/bee/internal/wire"
)

// around is a connection that somebody has put around another one.
type around struct{ net.Conn }

func (a around) NetConn() net.Conn { return a.Conn }

// TestWhoGoesOverAnotherConnectionIsPatient, whatever is around it.
func TestWhoGoesOverAnotherConnectionIsPatient(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	for _, c := range []struct {
		conn net.Conn
		want wire.Vigil
	}{{&wire.Stream{}, wire.Patient}, {around{&wire.Stream{}}, wire.Patient}, {ours, wire.Watched}, {around{ours}, wire.Watched}} {
		if got := vigilOver(c.conn); got != c.want {
			t.Errorf("%T: %v", c.conn, got)
		}
	}
}
