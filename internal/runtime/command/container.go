package command

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

// container is a running container.
type container struct {
	l      Launch
	cmd    *exec.Cmd
	client *pid1.Client
	said   *tail
	done   chan struct{} // closed when the program has ended
	exit   core.Exit
}

func (c *container) wait() {
	defer close(c.done)
	c.cmd.Wait() //nolint:errcheck // its state says how it ended
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return
	}
	c.exit = core.Exit{Code: status.ExitStatus()}
	if status.Signaled() {
		c.exit = core.Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	// Where the container's processes are the program's own children these
	// are theirs too; with podman and docker they are the program's alone.
	if usage, ok := c.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.exit.UserTime, c.exit.SystemTime = time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
		c.exit.MaxRSS = usage.Maxrss * 1024
	}
}

// record is a handle's data.
type record struct {
	Name string `json:"name"`
}

// Handle makes the handle of a container.
func Handle(driverName string, o core.Owner, name string) core.Handle {
	data, _ := json.Marshal(record{name}) //nolint:errchkjson // a string
	return core.Handle{Driver: driverName, Version: 1, Owner: o, Data: data}
}

// NameOf gives the container's name in a handle.
func NameOf(h core.Handle) (string, error) {
	var r record
	if err := json.Unmarshal(h.Data, &r); err != nil || r.Name == "" {
		return "", &core.Error{Kind: core.Invalid, Op: "read handle of", Object: h.Owner.String(), Err: errors.New("it names no container")}
	}
	return r.Name, nil
}

// NoRecovery is what Recover answers: init ends a container when whoever
// started it goes, so another process finds none.
func NoRecovery(h core.Handle) error {
	return &core.Error{Kind: core.NotFound, Op: "recover container of", Object: h.Owner.String(),
		Err: errors.New("a container ends with the node that started it")}
}

// Handle implements driver.Container.
func (c *container) Handle() core.Handle { return Handle(c.l.Driver, c.l.Owner, c.l.Name) }

// Exec implements driver.Container.
func (c *container) Exec(ctx context.Context, cmd driver.Command) (driver.Process, error) {
	return c.client.Exec(ctx, cmd)
}

// Wait implements driver.Container.
func (c *container) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-c.done:
		return c.exit, nil
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
}

// Stop implements driver.Container.
func (c *container) Stop(ctx context.Context, grace time.Duration) error {
	c.client.Close() //nolint:errcheck // letting go is what makes init end all; gone is success
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select { // init ends when all its processes have
	case <-c.client.Done():
		timer.Reset(max(c.l.Teardown, teardown))
		select {
		case <-c.done:
		case <-timer.C:
		case <-ctx.Done():
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	var err error
	select {
	case <-c.done:
	default:
		err = c.l.Remove(context.WithoutCancel(ctx))
		c.cmd.Process.Kill() //nolint:errcheck // gone is success
		<-c.done
	}
	return errors.Join(err, c.clean())
}

func (c *container) clean() error {
	if c.l.Clean == nil {
		return nil
	}
	return c.l.Clean()
}
