package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rdma/broker/relay"
	"github.com/bee-hpc/bee/internal/rdma/broker/socket"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// Times of startPool. The device comes up once its drivers have looked at the memory.
const (
	poolTimeout = 30 * time.Second
	poolPause   = 20 * time.Millisecond
)

// startPool has the memory that guests share be a device of the user's.
func startPool(c api.Config) error {
	if !c.Pool {
		return nil
	}
	if err := command("modprobe", "-a", "virtio_pmem", "nd_pmem", "dax_pmem", "device_dax"); err != nil {
		return fmt.Errorf("load the drivers of the memory that guests share, which guest images of older versions lack: %w", err)
	}
	for begun := time.Now(); ; time.Sleep(poolPause) { // nothing reports when a device is there
		err := os.Chown(api.PoolDevice, c.UID, c.GID)
		if err == nil || !errors.Is(err, os.ErrNotExist) || time.Since(begun) > poolTimeout {
			return err
		}
	}
}

// Bounds of connections of programs: each is a call of the agent's session, which has 1024.
const (
	mostPrograms    = 960
	programGreeting = 64
	programTimeout  = 10 * time.Second
)

// startPrograms has the container's programs reach the broker of the host, and adds the device.
func (h *containerAgent) startPrograms(o driver.BrokerOptions, s *driver.ContainerSpec) error {
	all, err := os.OpenFile(api.PoolDevice, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the memory that guests share: %w", err)
	}
	read, err := os.Open(api.PoolDevice)
	if err != nil {
		return errors.Join(fmt.Errorf("open the memory that guests share: %w", err), all.Close())
	}
	if err := h.servePrograms(relay.Memory{All: all, Read: read, Base: o.Pool.Base}); err != nil {
		return err
	}
	addVerbs(o, s, h.home)
	return nil
}

// servePrograms carries each program with verbs to the broker of the host, as long as the guest.
func (h *containerAgent) servePrograms(m relay.Memory) error {
	if _, err := writeVerbs(h.home); err != nil {
		return err
	}
	listener, err := socket.Listen(filepath.Join(h.home, verbsSocket))
	if err != nil {
		return fmt.Errorf("listen for programs with verbs: %w", err)
	}
	warn := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "bee guest: carry a program with verbs:", err)
		}
	}
	g := wire.Gate{Strangers: programGreeting, Timeout: programTimeout, Most: mostPrograms, Failed: warn}
	go g.Serve(listener, func(c net.Conn, known func() bool) {
		program, is := c.(*net.UnixConn)
		if !is {
			return
		}
		if err := socket.Trusted(program); err != nil || !known() { // it is one of this user's: the host's broker has the rest
			warn(err)
			return
		}
		warn(h.carryProgram(program, m))
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pooled = true
	return nil
}

// carryProgram carries one, until it ends.
func (h *containerAgent) carryProgram(program *net.UnixConn, m relay.Memory) error {
	defer program.Close()
	h.mu.Lock()
	peer := h.peer
	h.mu.Unlock()
	if peer == nil {
		return errors.New("the host is not there")
	}
	s, _, err := rpc.Open(context.Background(), peer, api.CallProgram, rpc.None{})
	if err != nil {
		return err
	}
	return relay.Guest(context.Background(), program, s, m)
}
