package local

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case emulate.HolderArg:
			os.Exit(emulate.HolderMain(os.Args[2:]))
		case drivertest.NodeArg:
			os.Exit(drivertest.StandInNode())
		case actArg:
			os.Exit(act(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// scratch gives a directory for one test. Run directories may hold what
// t.TempDir cannot remove.
func scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("", "bee-local-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fsutil.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func newProvider(t testing.TB, s Settings) driver.Provider {
	t.Helper()
	s.NodeArgv = drivertest.NodeArgv()
	p, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	for name, s := range map[string]Settings{
		"this machine":    {},
		"emulated":        {Name: "lab", EmulatedHosts: 3},
		"private scratch": {Name: "lab", EmulatedHosts: 2, PrivateScratch: true},
	} {
		t.Run(name, func(t *testing.T) {
			s.Scratch, s.Cache = scratch(t), filepath.Join(t.TempDir(), "cache")
			drivertest.ProviderSuite{Nodes: max(1, s.EmulatedHosts), New: func(t testing.TB) driver.Provider { return newProvider(t, s) }}.Run(t)
			entries, err := os.ReadDir(filepath.Join(s.Scratch, "bee"))
			if err != nil || len(entries) != 1 {
				t.Errorf("left in scratch: %v, %v", entries, err)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	for name, s := range map[string]Settings{
		"negative hosts":       {EmulatedHosts: -1},
		"too many hosts":       {EmulatedHosts: 1001},
		"negative slots":       {Slots: -1},
		"rate on this machine": {LinkRate: 1},
		"relative scratch":     {Scratch: "here"},
		"unset variable":       {Scratch: "/tmp/$BEE_NO_SUCH_VARIABLE"},
	} {
		if _, err := New(s); err == nil {
			t.Errorf("%s: was accepted", name)
		}
	}
	p, err := New(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.(*provider).base, "/var/tmp/bee-"+strconv.Itoa(os.Geteuid())+"/bee"; got != want {
		t.Errorf("scratch %s, want %s", got, want)
	}
}
