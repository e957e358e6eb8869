package wire

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

// TestBoundedPeerKeepsLittle: the other end opens more streams than it may, and sends more than is read.
func TestBoundedPeerKeepsLittle(t *testing.T) {
	near, far := net.Pipe()
	peer, err := NewBoundedPeer(near, false, "a flood", Local, Bounds{Streams: 2, Window: 512 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	c := yamux.DefaultConfig()
	c.LogOutput, c.EnableKeepAlive = io.Discard, false
	flood, err := yamux.Client(far, c)
	if err != nil {
		t.Fatal(err)
	}
	defer flood.Close()
	ended := 0
	var first *yamux.Stream
	for i := range 4 {
		s, err := flood.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = s
		}
		if i < 2 {
			continue
		}
		if err := s.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(make([]byte, 1)); errors.Is(err, yamux.ErrConnectionReset) {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("of two streams too many, %d were ended", ended)
	}
	s, err := peer.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 16<<10)
	if _, err := first.Write(piece); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(s, piece); err != nil { // the whole window is given then
		t.Fatal(err)
	}
	sent := 0
	for sent < 4<<20 {
		if err := first.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := first.Write(piece)
		sent += n
		if err != nil {
			break
		}
	}
	if sent == 0 || sent > 512<<10 {
		t.Errorf("%d bytes wait to be read", sent)
	}
}
