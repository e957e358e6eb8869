package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/mpi/ranks"
)

// current is this node's container while it runs, and the machine around it.
type current struct {
	host string // for errors

	mu        sync.Mutex
	container *container
	booting   func() (string, error) // reads the console of the machine; nil: there is none (yet)
}

// get returns the container; nil: it does not run (yet, or any more).
func (c *current) get() *container {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.container
}

// set records the container that has started.
func (c *current) set(b *container) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.container = b
}

// drop returns the container, and forgets it: it is ended once.
func (c *current) drop() *container {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.container
	c.container = nil
	return b
}

// setBooting records how to read the console of a machine that starts.
func (c *current) setBooting(console func() (string, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.booting = console
}

// bootConsole gives what a machine has reported that is being started, or did not come up.
func (c *current) bootConsole() (string, bool) {
	c.mu.Lock()
	b, read := c.container, c.booting
	c.mu.Unlock()
	if b != nil || read == nil {
		return "", false
	}
	text, err := read()
	return text, err == nil
}

// ofGuest gives what this node's guest gives.
func (c *current) ofGuest(what string, get func(driver.Guest) (string, error)) (string, error) {
	b := c.get()
	if b == nil {
		return "", &core.Error{Kind: core.Transient, Op: "read " + what + " of", Object: c.host, Err: errors.New("its container does not run (yet, or any more)"), Remedy: notUp}
	}
	g, err := b.guest()
	if err != nil {
		return "", err
	}
	return get(g)
}

// movable gives this node's machine as one that can be saved.
func (c *current) movable() (driver.Snapshot, error) {
	b := c.get()
	if b != nil {
		if g := b.Guest(); g != nil && g.Snapshot() != nil {
			return g.Snapshot(), nil
		}
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "save virtual machine of", Object: c.host, Err: errors.New("there is none that can be saved (yet, or any more)")}
}

// runOwn runs one of bee's own commands in this node's container.
func (c *current) runOwn(ctx context.Context, args ...string) (core.Exit, error) {
	b := c.get()
	if b == nil {
		return core.Exit{}, errors.New("the container does not run")
	}
	p, err := b.Exec(ctx, driver.Command{Args: append([]string{"/.bee/bee"}, args...), Env: b.env, Dir: "/"})
	if err != nil {
		return core.Exit{}, err
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) //nolint:errcheck // it may have ended just now
	}
	return exit, err
}

// signalRanks sends a signal to the ranks in this node's container.
func (c *current) signalRanks(ctx context.Context, number int) (bool, error) {
	exit, err := c.runOwn(ctx, ranks.Command, strconv.Itoa(number))
	if err == nil && exit.Code != 0 && exit.Code != ranks.None {
		err = fmt.Errorf("bee %s ended with exit code %d", ranks.Command, exit.Code)
	}
	return err == nil && exit.Code == 0, err
}
