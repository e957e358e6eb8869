package notify

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// progress is how far the receivers of a run are, in the order of the receivers.
type progress struct {
	Receivers []cursor `json:"receivers"`
}

// cursor is how far one receiver is.
type cursor struct {
	// Done is the number of the last event that was sent, or given up.
	Done int64 `json:"done"`
	// Tries counts those of the event after it, and Next is when it is tried again.
	Tries int       `json:"tries,omitempty"`
	Next  time.Time `json:"next,omitzero"`
}

const progressName = "progress.json"

// readProgress reads how far the receivers are. A file that is damaged counts as none: then
// notifications are sent again.
func readProgress(dir string, receivers int) (progress, error) {
	var p progress
	raw, err := os.ReadFile(filepath.Join(dir, progressName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if err == nil && json.Unmarshal(raw, &p) != nil {
		p = progress{}
	}
	for len(p.Receivers) < receivers {
		p.Receivers = append(p.Receivers, cursor{})
	}
	return p, nil
}

func (p progress) write(dir string) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(dir, progressName), raw, 0o600)
}
