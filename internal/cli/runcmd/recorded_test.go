package runcmd

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/state"
)

// recorded returns the commands over a state directory with runs on record.
func recorded(t *testing.T, runs ...state.Run) *Commands {
	t.Helper()
	a := New(workspace.New(io.Discard, io.Discard, "0.1.0"), Records{})
	dir := t.TempDir()
	a.StateDir, a.CacheDir = filepath.Join(dir, "s"), filepath.Join(dir, "c")
	runrecords.Open(t, a.StateDir, runs...)
	return a
}
