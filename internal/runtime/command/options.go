package command

import (
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Options are those of all of these runtimes.
type Options struct {
	// Program is the runtime's; empty: that of its name in PATH.
	Program string
	// Binary is the bee binary that Probe uses; empty: this process's own.
	Binary string
}

// PrepareTree is driver.Runtime's Prepare where a tree needs no preparation.
func PrepareTree(i driver.LocalImage) error {
	if _, err := os.Stat(i.Tree); err != nil {
		return &core.Error{Kind: core.NotFound, Op: "prepare image", Object: i.Ref, Err: err}
	}
	return nil
}
