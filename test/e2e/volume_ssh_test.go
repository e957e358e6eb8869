package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestVolumeBehindSSH mounts a directory of a host behind ssh, and kills the I/O process.
func TestVolumeBehindSSH(t *testing.T) {
	b, near := mountable(t)
	farm := sshfarm.Start(t, 1)
	b.Env = append(b.Env, farm.Env()...)
	dir := filepath.Join(farm.Dir, "far")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	far := "h0:" + dir
	b.Must("volume", "mount", far, near)
	script := exec.Command("sh", "-ec", `
		mkdir -p a/b && echo one > a/b/f && mv a/b/f a/g && ln -s g a/link && mv a c
		head -c 3000000 /dev/zero | tr '\0' x > big && chmod 751 big && touch -d @1000000000 c/g`)
	script.Dir = near
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	for _, pid := range processes(b, "volume-io ") {
		testkit.Kill(pid)
	}
	here := contents(t, near)
	b.Must("volume", "drain", near)
	var s volumeStatus
	b.JSON(&s, "volume", "status", "--json", far)
	if !s.Drained || s.Remote != far || len(s.Conflicts) > 0 {
		t.Errorf("%+v", s)
	}
	b.Must("volume", "umount", near)
	if got := contents(t, dir); !mapsEqual(got, here) || len(got) != 5 {
		t.Errorf("the host has %d names, and users saw %d", len(got), len(here))
	}
	if _, err := os.Lstat(filepath.Join(dir, ".bee")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left on the host: %v", err)
	}
	b.CheckNothingLeft(20 * time.Second)
	if r := b.Try("volume", "mount", far+"/none", near); r.Code == 0 || r.Stderr == "" {
		t.Errorf("a directory that is not there: %+v", r)
	}
}
