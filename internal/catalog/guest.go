package catalog

import (
	"context"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest"
	"github.com/bee-hpc/bee/internal/runtime/docker"
)

// GuestEngine returns the engine of a guest, docker, for guest.Main.
func GuestEngine(binary, socket string) guest.Engine {
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
