package leasedir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAClaimThatIsNone: the directory of a run is left where it is, and this is an error.
func TestAClaimThatIsNone(t *testing.T) {
	base := t.TempDir()
	leaseDir, dir := filepath.Join(base, "lease"), filepath.Join(base, "run")
	if err := os.Mkdir(leaseDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Claim("site", leaseDir, dir); err != nil {
		t.Fatal(err)
	}
	testkit.Spoil(t, filepath.Join(leaseDir, ClaimName), func(t *testing.T) string {
		err := Unclaim(leaseDir, dir)
		if _, lerr := os.Lstat(dir); err == nil || lerr != nil {
			t.Errorf("%v, %v", err, lerr)
		}
		return fmt.Sprint(err)
	})
	if err := Unclaim(leaseDir, dir); err != nil {
		t.Error(err)
	}
}
