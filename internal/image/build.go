package image

import (
	"context"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// Build makes an image.
func (s *Store) Build(ctx context.Context, b spec.Build, dir string, o PullOptions) (core.Image, error) {
	return core.Image{}, errors.New("not yet")
}
