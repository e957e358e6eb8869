package vm

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/yamux"
)

// guestStream is a stream of a session with a guest, and the guest's end.
func guestStream(t *testing.T) (outside, inside net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	config := yamux.DefaultConfig()
	config.LogOutput = io.Discard
	host, err := yamux.Client(a, config)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := yamux.Server(b, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); guest.Close() })
	if outside, err = host.Open(); err != nil {
		t.Fatal(err)
	}
	if inside, err = guest.Accept(); err != nil {
		t.Fatal(err)
	}
	return outside, inside
}

// TestSilentLink: a link ends, on both sides, soon after either takes nothing more, or has ended. The guest never ends
// its stream.
func TestSilentLink(t *testing.T) {
	for name, silence := range map[string]func(theirs, inside net.Conn){
		"the other side does not read": func(_, inside net.Conn) { inside.Write(make([]byte, 1024)) },
		"the guest does not read": func(theirs, _ net.Conn) {
			for {
				if _, err := theirs.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		},
		"the other side has ended": func(theirs, _ net.Conn) { theirs.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside, inside := guestStream(t)
			ours, theirs := net.Pipe()
			defer theirs.Close()
			over := make(chan struct{})
			go func() {
				defer close(over)
				carry(ours, outside, 50*time.Millisecond)
			}()
			go silence(theirs, inside)
			select {
			case <-over:
			case <-time.After(30 * time.Second):
				t.Fatal("the link has not ended")
			}
			if _, err := ours.Write([]byte{1}); err == nil {
				t.Error("the connection is open")
			}
		})
	}
}
