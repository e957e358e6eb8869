package catalog

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// TestDoubtful reads the settings of made-up systems.
func TestDoubtful(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"usual":       {map[string]string{"proc/sys/user/max_user_namespaces": "96000\n", "proc/self/status": "Name:\tbee\nSeccomp:\t0\n"}, false},
		"RHEL 7":      {map[string]string{"proc/sys/user/max_user_namespaces": "0\n"}, true},
		"old Debian":  {map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0\n"}, true},
		"Ubuntu":      {map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}, true},
		"in a docker": {map[string]string{"proc/self/status": "Name:\tbee\nSeccomp:\t2\n"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			test.files["proc/self/ns/user"] = ""
			for path, text := range test.files {
				if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got := doubtful(root); got != test.want {
				t.Errorf("doubtful: %v", got)
			}
		})
	}
}

// probed is a runtime of which only the probe is asked.
type probed struct {
	driver.Runtime
	name   string
	usable bool
	probes *int
}

func (p probed) Info() driver.Info { return driver.Info{Name: p.name} }
func (p probed) Probe(context.Context) (driver.Facts, error) {
	*p.probes++
	return driver.Facts{Usable: p.usable, Reason: "no " + p.name, Remedy: "Name " + p.name + "."}, nil
}

func TestVerdictIsKept(t *testing.T) {
	dir, probes := filepath.Join(t.TempDir(), "hosts", "h"), 0
	all := []driver.Runtime{probed{name: "a", probes: &probes}, probed{name: "b", usable: true, probes: &probes}, probed{name: "c", usable: true, probes: &probes}}
	for range 2 {
		rt, _, err := firstUsable(t.Context(), all, dir)
		if err != nil || rt.Info().Name != "b" {
			t.Fatalf("chose %v, %v", rt, err)
		}
	}
	if probes != 2 {
		t.Errorf("%d probes, want those of a and b, once", probes)
	}
	_, _, err := firstUsable(t.Context(), all[:1], t.TempDir())
	if !core.IsKind(err, core.Unsupported) || core.Remedy(err) != "Name a." {
		t.Errorf("none usable: %v, remedy %q", err, core.Remedy(err))
	}
}
