package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Emulated finds the emulated hosts of a run, on which people and tests try out
// partitions and hosts that die. stateDir is that of Settings. NotFound: the run has
// none, or none any more.
func Emulated(ctx context.Context, stateDir, run string) (*emulate.Client, error) {
	p := &provider{base: filepath.Join(DefaultScratch(), "bee"), s: Settings{StateDir: stateDir}}
	for _, base := range p.bases() {
		entries, _ := os.ReadDir(filepath.Join(base, leasesDir)) // then none are there
		for _, e := range entries {
			if o, ok := leasedir.OwnerNamed(e.Name()); !ok || o.Run != run {
				continue
			}
			c, err := emulate.Open(ctx, filepath.Join(base, leasesDir, e.Name()))
			if !core.IsKind(err, core.NotFound) {
				return c, err
			}
		}
	}
	return nil, &core.Error{
		Kind: core.NotFound, Op: "find emulated hosts of run", Object: run, Err: errors.New("there are none"),
		Remedy: "Only live runs on a local site with `hosts` set have any: see `bee ps`.",
	}
}
