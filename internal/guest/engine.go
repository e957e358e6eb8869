package guest

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/driver"
)

// Engine is the container engine of the guest.
type Engine interface {
	// Ping fails until the engine answers.
	Ping(ctx context.Context) error
	// Load adds the images of an archive of `docker save`.
	Load(ctx context.Context, archive io.Reader) error
	RemoveImage(ctx context.Context, ref string) error
	Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error)
}

// NewEngine returns the engine that listens at a socket, for containers that get the bee
// binary.
type NewEngine func(binary, socket string) Engine
