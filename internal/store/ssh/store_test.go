package ssh

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/sshlink/storecall"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestMain makes the test binary the agent on a host, as the bee binary is in real use.
func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == sshlink.RemoteArg {
		os.Exit(sshlink.Serve(func(s *rpc.Server, m *sshlink.RendezvousTable) {
			storecall.Agent{Store: func(dir string) driver.Store { return dirstore.Store(dir) }, RendezvousTable: m}.Register(s)
		}))
	}
	os.Exit(m.Run())
}

func archive(t testing.TB, f *sshfarm.Farm, host, dir string) driver.Store {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	client := sshlink.New(sshlink.Settings{Program: filepath.Join(f.Bin, "ssh"), BinaryFor: func(arch string) (string, error) {
		if arch == runtime.GOARCH {
			return self, nil
		}
		return "", os.ErrNotExist
	}})
	p := New(client, host, dir)
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
