package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// servePort answers the host's calls on a port, as long as the guest lives. A
// session ends when the host's end does; the next one is with the next caller, on
// another host perhaps. met, if not nil, is notified of each.
func servePort(name string, s *rpc.Server, met func(*rpc.Peer)) error {
	for {
		port, err := openPort(name)
		if err != nil {
			return err
		}
		peer, err := rpc.NewPeer(port, false, "the host", wire.Local, api.Protocol)
		if err != nil {
			return err
		}
		if met != nil {
			met(peer)
		}
		peer.Serve(context.Background(), s, rpc.Caller{Role: rpc.Host, Rank: -1})
		peer.Close()
	}
}

// openPort opens the virtio-serial port of that name and greets the host, once
// that has opened its end.
func openPort(name string) (io.ReadWriteCloser, error) {
	device, err := findPort(name)
	if err != nil {
		return nil, err
	}
	for {
		p, err := os.OpenFile(device, os.O_RDWR, 0)
		if errors.Is(err, unix.EBUSY) { // ourselves, just before
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open port %s: %w", name, err)
		}
		if _, err := p.WriteString(api.Greeting); err == nil {
			return p, nil
		}
		p.Close() // the host has gone again
	}
}

// findPort gives the device of a virtio-serial port.
func findPort(name string) (string, error) {
	files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(raw)) == name {
			return "/dev/" + filepath.Base(filepath.Dir(f)), nil
		}
	}
	return "", &core.Error{Kind: core.NotFound, Op: "find port", Object: name, Err: errors.New("the hypervisor gave none"), Remedy: core.RemedyFault}
}
