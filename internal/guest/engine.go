package guest

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/driver"
)

// Engine starts the container of the guest.
type Engine interface {
	// Ping fails until the engine answers.
	Ping(ctx context.Context) error
	Start(ctx context.Context, spec driver.ContainerSpec) (driver.Container, error)
}

// ImageEngine is an engine that has images of its own.
type ImageEngine interface {
	Engine
	// Load adds the images of an archive of `docker save`.
	Load(ctx context.Context, archive io.Reader) error
	RemoveImage(ctx context.Context, ref string) error
}

// NewEngine returns the engine that listens at a socket, for containers that get the bee
// binary.
type NewEngine func(binary, socket string) ImageEngine

// NewBare returns the engine of guests without docker, which starts programs of an image's
// tree in the guest itself.
type NewBare func(binary string) Engine
