package checkpoint

import (
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// MostSaved is the largest file that says something of saved machines, in bytes.
const MostSaved = 16 << 20

// ReadSaved reads, in a directory, what a site has written of saved machines.
func ReadSaved(dir string) (*protocol.Saved, error) {
	s := &protocol.Saved{}
	raw, err := fsutil.ReadFile(dir, protocol.SavedFile, MostSaved)
	if err == nil {
		err = core.DecodeJSON(raw, s)
	}
	return s, err
}
