package setupcmd

import (
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
)

func TestDoctorWarnsOfLocksOfOneMachine(t *testing.T) {
	for name, c := range map[string]struct {
		f       fsutil.FileSystem
		found   bool
		untried bool
	}{
		"a local disk":             {fsutil.FileSystem{Type: "ext4"}, false, false},
		"NFS":                      {fsutil.FileSystem{Type: "nfs4", Options: []string{"rw", "local_lock=none"}}, false, false},
		"NFS with local locks":     {fsutil.FileSystem{Type: "nfs4", Options: []string{"local_lock=all"}}, true, false},
		"NFS with local flock":     {fsutil.FileSystem{Type: "nfs", Options: []string{"local_lock=flock"}}, true, false},
		"NFS without locks":        {fsutil.FileSystem{Type: "nfs", Options: []string{"nolock"}}, true, false},
		"Lustre":                   {fsutil.FileSystem{Type: "lustre", Options: []string{"flock"}}, false, false},
		"Lustre with localflock":   {fsutil.FileSystem{Type: "lustre", Options: []string{"localflock"}}, true, false},
		"one that nobody knows of": {fsutil.FileSystem{Type: "fuse.odd"}, true, true},
	} {
		f, found := locks("state", "/somewhere", c.f)
		if found != c.found || (f.Status == untried) != c.untried || f.Status == works || found && f.Status != untried && f.Remedy == "" {
			t.Errorf("%s: %+v, %v", name, f, found)
		}
	}
}

func TestLockReachOfADirectoryThatIsStillToBeMade(t *testing.T) {
	dir := t.TempDir()
	want, _ := lockReach(dir)
	if got, known := lockReach(filepath.Join(dir, "a", "b")); !known || got.Type != want.Type || got.Type == "" {
		t.Errorf("%+v, %v; want %+v", got, known, want)
	}
}
