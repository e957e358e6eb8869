package ssh

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

func archive(t testing.TB, f *sshfarm.Farm, host, dir string) driver.Store {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewStore(Settings{Name: "archive", Hosts: []string{host}, Client: filepath.Join(f.Bin, "ssh"), BinaryFor: func(arch string) (string, error) {
		if arch == runtime.GOARCH {
			return self, nil
		}
		return "", os.ErrNotExist
	}}, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestAStoreBehindSSH(t *testing.T) {
	f := sshfarm.Start(t, 1)
	drivertest.StoreSuite{New: func(t testing.TB) (driver.Store, string) {
		dir, err := os.MkdirTemp(f.Dir, "tape")
		if err != nil {
			t.Fatal(err)
		}
		return archive(t, f, "h0", dir), dir
	}}.Run(t)
}

func BenchmarkAStoreBehindSSH(b *testing.B) {
	f := sshfarm.Start(b, 1)
	dir := filepath.Join(f.Dir, "tape")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	drivertest.BenchStore(b, archive(b, f, "h0", dir))
}
