package vm

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

func TestDisksOfASavedMachineAreNames(t *testing.T) {
	good := record{Disks: []savedDisk{{Serial: api.RootDisk}, {Serial: api.ScratchDisk}, {Serial: api.ImageDisk}, {Serial: api.DataDisk}, {Serial: api.ExtraDisk(0)}, {Serial: api.ExtraDisk(15)}}}
	if err := good.checkDisks(); err != nil {
		t.Error(err)
	}
	for _, serial := range []string{"", "..", "../../.ssh/authorized_keys", "/etc/passwd", "initrd", "bee-root/x", "bee-a,file=/etc/shadow", "bee-a\n", "BEE-A"} {
		if err := (record{Disks: []savedDisk{{Serial: serial}}}).checkDisks(); !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", serial, err)
		}
	}
	for name, r := range map[string]record{"twice": {Disks: []savedDisk{{Serial: "bee-a"}, {Serial: "bee-a"}}}, "many": {Disks: make([]savedDisk, driver.MostDisks+1)}} {
		if err := r.checkDisks(); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSavedFilesAreRead: links and FIFOs in place of them are not.
func TestSavedFilesAreRead(t *testing.T) {
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := errors.Join(pack(secret, func(w io.Writer) error { _, err := w.Write([]byte("x")); return err }),
		os.Symlink(secret, filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "fifo", "../" + filepath.Base(filepath.Dir(secret)) + "/secret"} {
		if err := unpack(dir, name, func(io.Reader) error { return nil }); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
