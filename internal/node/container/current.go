package container

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

// Current is this node's container while it runs, and the machine around it.
type Current struct {
	host string // for errors

	mu        sync.Mutex
	container *Container
	booting   func() (string, error) // reads the console of the machine; nil: there is none (yet)
}

// Get returns the container; nil: it does not run (yet, or any more).
func (c *Current) Get() *Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.container
}

// Set records the container that has started.
func (c *Current) Set(b *Container) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.container = b
}

// Drop returns the container, and forgets it: it is ended once.
func (c *Current) Drop() *Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.container
	c.container = nil
	return b
}

// SetBooting records how to read the console of a machine that starts.
func (c *Current) SetBooting(console func() (string, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.booting = console
}

// BootConsole gives what a machine has reported that is being started, or did not come up.
func (c *Current) BootConsole() (string, bool) {
	c.mu.Lock()
	b, read := c.container, c.booting
	c.mu.Unlock()
	if b != nil || read == nil {
		return "", false
	}
	text, err := read()
	return text, err == nil
}

// OfGuest gives what this node's guest gives.
func (c *Current) OfGuest(what string, get func(driver.Guest) (string, error)) (string, error) {
	b := c.Get()
	if b == nil {
		return "", &core.Error{Kind: core.Transient, Op: "read " + what + " of", Object: c.host, Err: errors.New("its container does not run (yet, or any more)"), Remedy: NotUp}
	}
	g, err := b.ReachGuest()
	if err != nil {
		return "", err
	}
	return get(g)
}

// Movable gives this node's machine as one that can be saved.
func (c *Current) Movable() (driver.Snapshot, error) {
	b := c.Get()
	if b != nil {
		if g := b.Guest(); g != nil && g.Snapshot() != nil {
			return g.Snapshot(), nil
		}
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "save virtual machine of", Object: c.host, Err: errors.New("there is none that can be saved (yet, or any more)"), Remedy: core.RemedyAgain}
}

// RunOwn runs one of bee's own commands in this node's container.
func (c *Current) RunOwn(ctx context.Context, args ...string) (core.Exit, error) {
	b := c.Get()
	if b == nil {
		return core.Exit{}, errors.New("the container does not run")
	}
	p, err := b.Exec(ctx, driver.Command{Args: append([]string{"/.bee/bee"}, args...), Env: b.Env, Dir: "/"})
	if err != nil {
		return core.Exit{}, err
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
	}
	return exit, err
}

// SignalRanks sends a signal to the ranks in this node's container.
func (c *Current) SignalRanks(ctx context.Context, number int) (bool, error) {
	exit, err := c.RunOwn(ctx, ranks.Command, strconv.Itoa(number))
	if err == nil && exit.Code != 0 && exit.Code != ranks.None {
		err = fmt.Errorf("bee %s ended with exit code %d", ranks.Command, exit.Code)
	}
	return err == nil && exit.Code == 0, err
}

// NewCurrent makes that of a host, where nothing runs yet.
func NewCurrent(host string) *Current { return &Current{host: host} }
