// Package container holds the one container of a node while it runs, the virtual machine
// around it, and what the head and callers of the node do with them. It must not know how
// they are made, nor of other nodes but by a connection that it is given.
package container

import (
	"context"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/nodecall"
)

// Container is the one container of this node.
type Container struct {
	driver.Container
	Runtime string
	Why     string
	Env     []string // of everything that runs in it
	Workdir string
	Release func()            // of the image
	RDMA    []core.RDMADevice // that it has
	Notes   []string          // for the user, about its host
	// HostPrograms: its programs are not those of the image.
	HostPrograms bool
}

// InsideRun is where containers see the directory of the node's socket.
const InsideRun = "/.bee/run"

// NotUp is the remedy where a container is asked for something that is not there.
const NotUp = "Where the run is still being started, try again in a moment: a virtual machine takes a minute or two without KVM."

// ReachGuest returns the container's virtual machine.
func (b *Container) ReachGuest() (driver.Guest, error) {
	if g := b.Guest(); g != nil {
		return g, nil
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "reach virtual machine", Err: errors.New("the run has none"), Remedy: "Virtual machines are used where the Beefile has `vm:`."}
}

// Serve runs a command to its end.
func (b *Container) Serve(ctx context.Context, s io.ReadWriter, r nodecall.ExecRequest) error {
	place := execute.Place{Start: b.Exec, Env: b.Env, Dir: b.Workdir}
	if r.Guest {
		place = execute.Place{Start: func(ctx context.Context, c driver.Command) (driver.Process, error) {
			g, err := b.ReachGuest()
			if err != nil {
				return nil, err
			}
			return g.ExecInGuest(ctx, c)
		}}
	}
	return place.Run(ctx, s, r)
}
