package fabric

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// guest is a test's end of a switch's port: it speaks what QEMU does.
type guest struct {
	t    testing.TB
	rank int
	f    *Fabric
	c    net.Conn
}

func newGuest(t testing.TB, rank, size int) *guest { return newGuestOf(t, Switch, rank, size) }

func newGuestOf(t testing.TB, kind string, rank, size int) *guest {
	t.Helper()
	g := &guest{t: t, rank: rank, f: New(kind, Sockets, Place{rank, size, 1}, slog.New(slog.DiscardHandler))}
	file, err := g.f.Attach(rank)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if g.c, err = net.FileConn(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.f.Close(); g.c.Close() })
	return g
}

// twoOfThree gives two hosts' switches, linked, with places for three guests each.
func twoOfThree(t *testing.T) []*Fabric {
	t.Helper()
	var hosts []*Fabric
	x, y := testkit.Line(t)
	for i, c := range []net.Conn{x, y} {
		f := New(Switch, Sockets, Place{i, 2, 3}, slog.New(slog.DiscardHandler))
		if _, err := f.Link(1-i, 0, c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(f.Close)
		hosts = append(hosts, f)
	}
	return hosts
}

func mesh(t *testing.T, size int) []*guest { return fabricOf(t, Switch, size) }

func fabricOf(t *testing.T, kind string, size int) []*guest {
	t.Helper()
	var guests []*guest
	for rank := range size {
		guests = append(guests, newGuestOf(t, kind, rank, size))
	}
	for a := range size {
		for _, b := range Above(kind, a) {
			joinGuests(t, guests[a], guests[b])
		}
	}
	return guests
}

func joinGuests(t *testing.T, a, b *guest) (*Connection, *Connection) {
	t.Helper()
	x, y := testkit.Line(t)
	la, err := a.f.Link(b.rank, 0, x)
	if err != nil {
		t.Fatal(err)
	}
	lb, err := b.f.Link(a.rank, 0, y)
	if err != nil {
		t.Fatal(err)
	}
	return la, lb
}

func frame(to, from mac, payload string) []byte {
	return append(append(append(append([]byte{}, to[:]...), from[:]...), 0x08, 0x00), payload...)
}

func (g *guest) send(raw []byte) {
	g.t.Helper()
	if _, err := g.c.Write(raw); err != nil {
		g.t.Fatal(err)
	}
}

// gets reads the next frame.
func (g *guest) gets(within time.Duration) []byte {
	g.t.Helper()
	buf := make([]byte, maxFrame)
	g.c.SetReadDeadline(time.Now().Add(within))
	n, err := g.c.Read(buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// peerTo is what the switch says of its link to the host of a rank's guest.
func (f *Fabric) peerTo(rank int) Peer {
	for _, p := range f.Stats().Peers {
		if f.place.hostOf(p.Rank) == f.place.hostOf(rank) {
			return p
		}
	}
	return Peer{}
}

// taker is a guest's device that takes all.
type taker struct{}

func (taker) Close() error                         { return nil }
func (t taker) offer(b *batch) (frames, bytes int) { return t.give(b) }
func (taker) give(b *batch) (frames, bytes int) {
	for _, f := range b.frames {
		frames, bytes = frames+1, bytes+f.Len()
	}
	return frames, bytes
}
