package sshlink

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/wire"
)

// TestAStrangerJoinsNoPool: the socket's name is in /proc/net/unix, for everybody to see. Who
// comes first without the key neither becomes a part of the connection nor ends the offer.
func TestAStrangerJoinsNoPool(t *testing.T) {
	hidden, at, err := wire.ListenHidden()
	must(t, err)
	defer hidden.Close()
	key := wire.NewKey()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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
		if wire.NewKey().Prove(wrong, poolCaller, poolListener) == nil {
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
				err = key.Prove(c, poolCaller, poolListener)
			}
			if err != nil {
				t.Error(err)
				return
			}
			c.Write([]byte{byte(i)})
			c.Write([]byte{'a' + byte(i)})
		}
	}()
	pooledConns, err := acceptPooled(ctx, hidden, key, 2)
	must(t, err)
	for i, l := range pooledConns {
		b := make([]byte, 1)
		l.(net.Conn).SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadFull(l, b); err != nil || b[0] != 'a'+byte(i) {
			t.Errorf("connection %d says %q, %v", i, b, err)
		}
		l.Close()
	}
}
