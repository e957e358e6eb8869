package leasedir

import (
	"context"
	"os"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/hostdir"
)

// Directories is driver.Provider.Directories on this machine, with the variables of an
// account; nil: those of this process.
func Directories(ctx context.Context, wanted []driver.Directory, account environ.Lookup) ([]string, error) {
	if account == nil {
		account = os.LookupEnv
	}
	paths := make([]string, len(wanted))
	for i, w := range wanted {
		var err error
		if paths[i], err = hostdir.Expand(w.Path, account); err != nil {
			return nil, err
		}
		dir, err := hostdir.Open(ctx, paths[i], w.Write)
		if err != nil {
			return nil, err
		}
		dir.Close()
	}
	return paths, nil
}
