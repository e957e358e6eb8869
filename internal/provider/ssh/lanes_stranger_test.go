package ssh

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/wire"
)

// TestAStrangerIsNoLane: the socket's name is in /proc/net/unix, for everybody to see. Who
// comes first without the key neither becomes a part of the connection nor ends the offer.
func TestAStrangerIsNoLane(t *testing.T) {
	door, at, err := wire.ListenHidden()
	must(t, err)
	defer door.Close()
	key := wire.NewKey()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, says := range []string{"", "\x00", "\x01", string(make([]byte, 64)), string(make([]byte, 4096))} {
		c, err := wire.DialUnix(ctx, at)
		must(t, err)
		defer c.Close()
		c.Write([]byte(says))
	}
	wrong, err := wire.DialUnix(ctx, at)
	must(t, err)
	defer wrong.Close()
	go func() {
		if wire.NewKey().Prove(wrong, laneBringer, laneTaker) == nil {
			t.Error("another key is taken for this one")
		}
		wrong.Write([]byte{0})
	}()
	reflecting, err := wire.DialUnix(ctx, at) // which sends back what it is asked
	must(t, err)
	defer reflecting.Close()
	go io.Copy(reflecting, reflecting)
	go func() {
		for i := range 2 {
			c, err := wire.DialUnix(ctx, at)
			if err == nil {
				err = key.Prove(c, laneBringer, laneTaker)
			}
			if err != nil {
				t.Error(err)
				return
			}
			c.Write([]byte{byte(i)})
			c.Write([]byte{'a' + byte(i)})
		}
	}()
	lanes, err := takeLanes(ctx, door, key, 2)
	must(t, err)
	for i, l := range lanes {
		b := make([]byte, 1)
		l.(net.Conn).SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadFull(l, b); err != nil || b[0] != 'a'+byte(i) {
			t.Errorf("lane %d says %q, %v", i, b, err)
		}
		l.Close()
	}
}
