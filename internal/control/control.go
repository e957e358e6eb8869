// Package control is what commands call: it looks at runs and sites, dials nodes, keeps hosts
// for several runs, takes runs over from other installations and saves virtual machines.
//
// Package runner below it carries runs out, submission has their records, and request what
// users ask of them. None of these knows a driver but by its interface, or a terminal.
package control

import (
	"context"
	"net"

	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/control/request"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/runner"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/driver"
)

// RemotePlace is a place of outputs that is neither here nor on a site, and Writer who stores
// outputs there.
type (
	RemotePlace = outputs.Place
	Writer      = outputs.Writer
)

// Runner has what a controller uses.
type Runner = runner.Runner

// Routes is what is known of how machines reach each other. The zero value is ready for use.
type Routes = transfer.Routes

// Head is a connection to the head of an attempt.
type Head = headlink.Head

// SecureByKey is Controller.Secure for nodes.
func SecureByKey(ctx context.Context, conn net.Conn, key []byte, rank int) (net.Conn, error) {
	return headlink.SecureByKey(ctx, conn, key, rank)
}

// Starter executes the launch spec of an attempt on its own hosts, in the controller's stead.
func Starter(connect func(net.Conn) (Head, error)) driver.Starter { return launch.Starter(connect) }

// Controller carries out the runs of one state directory, and what users ask of them.
type Controller struct{ Runner }

// Requests records what users ask of runs.
func (c *Controller) Requests() request.Requests { return request.Requests{Store: c.Store} }

// What Garbage removes and reports.
type (
	Leaving  = gc.Leaving
	Sweeping = gc.Sweeping
	Swept    = gc.Swept
	Rented   = gc.Rented
	EndedBy  = gc.EndedBy
)

// What ends things that are rented.
const (
	EndedByRun     = gc.EndedByRun
	EndedByRelease = gc.EndedByRelease
	EndedByItself  = gc.EndedByItself
	EndedByMachine = gc.EndedByMachine
	EndedByUser    = gc.EndedByUser
	EndedByNobody  = gc.EndedByNobody
)

// Checkpoint is one of a run, for people.
type Checkpoint = retention.Checkpoint
