package node

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// blind is a runtime that starts no container with a directory of the site.
type blind struct {
	driver.Runtime
	err, without error
	vm           driver.VMRuntime
	running      *int
}

func (b blind) Info() driver.Info    { return driver.Info{Name: "blind"} }
func (b blind) VM() driver.VMRuntime { return b.vm }

func (b blind) Start(_ context.Context, s driver.ContainerSpec) (driver.Container, error) {
	for _, m := range s.Mounts {
		if m.Dir != nil {
			return nil, b.err
		}
	}
	if b.without != nil {
		return nil, b.without
	}
	*b.running++
	return trial{running: b.running}, nil
}

type trial struct {
	driver.Container
	running *int
}

func (t trial) Stop(context.Context, time.Duration) error { *t.running--; return nil }

// TestARuntimeThatMayNotReadAMount is skipped with its site, and nothing of the trial is
// left.
func TestARuntimeThatMayNotReadAMount(t *testing.T) {
	plain, running := errors.New("exit status 125"), 0
	over, cancel := context.WithCancel(t.Context())
	cancel()
	mounts := []driver.Mount{{Source: "/volume", Target: "/work"}, {Source: "/project/era5", Target: "/data", Dir: os.Stdin}}
	for name, c := range map[string]struct {
		ctx    context.Context
		by     blind
		mounts []driver.Mount
		kind   core.Kind
	}{
		"it starts without them": {by: blind{err: plain}, mounts: mounts, kind: core.Unsupported},
		"it starts nothing":      {by: blind{err: plain, without: plain}, mounts: mounts, kind: core.Permanent},
		"it has said why":        {by: blind{err: &core.Error{Kind: core.Busy, Err: plain}}, mounts: mounts, kind: core.Busy},
		"there are none":         {by: blind{err: plain}, mounts: mounts[:1], kind: core.Permanent},
		"the attempt is over":    {ctx: over, by: blind{err: plain}, mounts: mounts, kind: core.Permanent},
		"in a virtual machine":   {by: blind{err: plain, vm: struct{ driver.VMRuntime }{}}, mounts: mounts, kind: core.Permanent},
	} {
		if c.ctx == nil {
			c.ctx = t.Context()
		}
		c.by.running = &running
		err := unmountable(c.ctx, c.by, driver.ContainerSpec{Mounts: c.mounts}, c.by.err)
		if core.KindOf(err) != c.kind || !errors.Is(err, c.by.err) || c.kind == core.Unsupported && core.Remedy(err) == "" {
			t.Errorf("%s: %v, kind %v", name, err, core.KindOf(err))
		}
		if len(c.mounts) == 2 && c.mounts[1].Dir == nil {
			t.Errorf("%s: the caller's mounts were changed", name)
		}
	}
	if running != 0 {
		t.Errorf("%d containers are left", running)
	}
}
