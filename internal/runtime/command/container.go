package command

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

// container is a running container.
type container struct {
	l       Launch
	program Program
	client  *pid1.Client
	done    chan struct{} // closed when the program has ended
	exit    core.Exit
}

// Hold has start run a container, and takes hold of its init.
func Hold(ctx context.Context, s Launch, start func() (Program, error)) (driver.Container, error) {
	listener, err := pid1.Open(s.RunDir)
	if err != nil {
		return nil, errors.Join(StartError(s, err), s.clean())
	}
	p, err := start()
	if err != nil {
		listener.Close()
		return nil, errors.Join(err, s.clean())
	}
	c := &container{l: s, program: p, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.exit = p.Wait()
	}()
	if c.client, err = listener.Await(ctx, c.done); err != nil {
		return nil, errors.Join(c.failed(ctx, err), s.clean())
	}
	if err := c.client.CheckMounts(ctx, s.Mounts); err != nil {
		return nil, errors.Join(&core.Error{Kind: core.KindOf(err), Op: "start " + s.Driver + " container", Object: s.Name, Err: err, Remedy: core.Remedy(err)}, c.Stop(context.WithoutCancel(ctx), teardown))
	}
	return c, nil
}

// failed ends what did not come up, and says why by the program's own words.
func (c *container) failed(ctx context.Context, err error) error {
	select {
	case <-c.done:
	default:
		if rerr := c.l.remove(context.WithoutCancel(ctx)); rerr != nil {
			err = errors.Join(err, rerr)
		}
		c.program.Kill()
		<-c.done
	}
	if printed := strings.TrimSpace(c.program.String()); printed != "" && ctx.Err() == nil {
		err = errors.New(printed)
	}
	return StartError(c.l, err)
}

// Exec implements driver.Container.
func (c *container) Exec(ctx context.Context, cmd driver.Command) (driver.Process, error) {
	return c.client.Exec(ctx, cmd)
}

// Wait implements driver.Container.
func (c *container) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-c.done:
		return c.client.Used(c.exit), nil
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
}

// Stop implements driver.Container.
func (c *container) Stop(ctx context.Context, grace time.Duration) error {
	c.client.Close() // releasing is what makes init end all; gone is success
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
		err = c.l.remove(context.WithoutCancel(ctx))
		c.program.Kill()
		<-c.done
	}
	return errors.Join(err, c.l.clean())
}

// Use implements driver.Container.
func (c *container) Use(ctx context.Context) (core.Sample, error) { return c.client.Use(ctx) }

// Guest implements driver.Container.
func (c *container) Guest() driver.Guest { return nil }

// Memory implements driver.Container.
func (c *container) Memory() driver.MemoryLimit { return c }

// MemoryKills implements driver.MemoryLimit.
func (c *container) MemoryKills() int { return c.l.Bound.Kills() }

// Unbounded implements driver.MemoryLimit.
func (c *container) Unbounded() error { return c.l.Bound.Why() }
