package storecall

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// inDirectory opens the store in a directory.
func inDirectory(dir string) driver.Store { return dirstore.Store(dir) }

// TestMarksAreNamedByWhoAsks, and nothing else is made or removed by that.
func TestMarksAreNamedByWhoAsks(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, q := range []Request{{Op: OpMark, Path: "/x/other"}, {Op: OpUnmark, Path: mine}, {Op: OpUnmark, Path: "../mine"}} {
		q.Dir = dir
		raw, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (Agent{Store: inDirectory}).useStore(t.Context(), raw); err == nil {
			t.Errorf("%s %s was done", q.Op, q.Path)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
