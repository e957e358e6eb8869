package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// TestADirectoryWithoutItsMarkIsAnother: a host drains to a directory only if that is the submitting machine's.
func TestADirectoryWithoutItsMarkIsAnother(t *testing.T) {
	dir := t.TempDir()
	b := plan.Burst{Remote: dir, Mark: ".bee-mark-run-1"}
	if err := seesRemote(b); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("without the mark: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, b.Mark), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := seesRemote(b); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	if err := seesRemote(plan.Burst{Remote: "archive:run7"}); err != nil {
		t.Error(err)
	}
}

// TestRecordsOfASite: a host has records of its own, beside the directories of runs, unless the plan names them.
func TestRecordsOfASite(t *testing.T) {
	c := plan.Config{Host: core.Host{Name: "gpu1", Dir: "/scratch/bee/run"}}
	if b := withRecords(c, plan.Burst{}); b.Records != "/scratch/bee/.burst/gpu1/volumes" || !b.Alone {
		t.Errorf("%+v", b)
	}
	if b := withRecords(c, plan.Burst{Records: "/state/volumes"}); b.Records != "/state/volumes" || b.Alone {
		t.Errorf("%+v", b)
	}
}
