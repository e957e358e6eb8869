package catalog

import (
	"context"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest"
	"github.com/bee-hpc/bee/internal/runtime/docker"
	"github.com/bee-hpc/bee/internal/runtime/rootless"
)

// GuestEngine returns the engine of a guest, docker, for guest.Main.
func GuestEngine(binary, socket string) guest.ImageEngine {
	e := docker.NewEngine(socket)
	return guestEngine{e, docker.New(docker.Options{Binary: binary, Own: e})}
}

type guestEngine struct {
	*docker.Engine
	runtime *docker.Runtime
}

// Start implements guest.Engine.
func (e guestEngine) Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error) {
	return e.runtime.Start(ctx, spec)
}

// BareEngine returns the engine of a guest without docker, for guest.Main.
func BareEngine(binary string) guest.Engine {
	return bareEngine{rootless.Native(rootless.Options{Binary: binary})}
}

type bareEngine struct{ driver.Runtime }

// Ping implements guest.Engine: nothing has to start before programs do.
func (bareEngine) Ping(context.Context) error { return nil }
