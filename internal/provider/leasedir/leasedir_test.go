package leasedir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestAScratchThatIsAway is not one whose leases are gone.
func TestAScratchThatIsAway(t *testing.T) {
	owner := core.Owner{User: "u", Run: "r", Attempt: 1}
	for _, mounted := range []bool{false, true} {
		k := Kind{Driver: "test", Version: 1, Leases: ".leases", Mounted: mounted}
		base := filepath.Join(t.TempDir(), "scratch")
		dir := k.Dir(base, owner)
		find := func(when string, want error) {
			t.Helper()
			if _, _, err := k.Find(k.Handle(dir, owner)); (err == nil) != (want == nil) || err != nil && core.KindOf(err) != core.KindOf(want) {
				t.Errorf("%s (mounted %v): %v of kind %v, want %v", when, mounted, err, core.KindOf(err), want)
			}
		}
		gone, unknown := &core.Error{Kind: core.NotFound}, &core.Error{Kind: core.Transient}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		find("there", nil)
		if err := os.Rename(base, base+".away"); err != nil {
			t.Fatal(err)
		}
		if mounted {
			find("not mounted", unknown)
		} else {
			find("removed", gone)
		}
		if err := os.Rename(base+".away", base); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		find("released", gone)
		if err := os.RemoveAll(base); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(base, nil, 0o600); err != nil { // stands in for a file system that fails
			t.Fatal(err)
		}
		find("unreadable", unknown)
	}
}
