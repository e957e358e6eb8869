package drivertest

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// directories: a site knows of what a job mounts whether it has it, before any hosts are
// asked for, and what the account's variables stand for there.
func (s ProviderSuite) directories(t *testing.T) {
	p, dir := s.New(t), t.TempDir()
	if s.Rented {
		if got, err := p.Directories(t.Context(), []driver.Directory{{Path: dir}}); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("a directory of hosts that nobody has: %q, %v", got, err)
		}
		return
	}
	for name, mode := range map[string]os.FileMode{"open": 0o755, "fixed": 0o555, "shut": 0} {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		check(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	check(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o644))
	check(t, os.Symlink("open", filepath.Join(dir, "link")))
	got, err := p.Directories(t.Context(), []driver.Directory{{Path: dir + "/open/", Write: true}, {Path: "$HOME"}, {Path: filepath.Join(dir, "link")}})
	if err != nil || len(got) != 3 || got[0] != filepath.Join(dir, "open") || !filepath.IsAbs(got[1]) || got[2] != filepath.Join(dir, "link") {
		t.Errorf("what is there: %q, %v", got, err)
	}
	refused := []driver.Directory{{Path: filepath.Join(dir, "missing")}, {Path: filepath.Join(dir, "file")}, {Path: "$BEE_SUITE_NOT_SET/x"}, {Path: "relative"}}
	if os.Getuid() != 0 {
		refused = append(refused, driver.Directory{Path: filepath.Join(dir, "shut")}, driver.Directory{Path: filepath.Join(dir, "fixed"), Write: true})
	}
	for _, d := range refused {
		got, err := p.Directories(t.Context(), slices.Concat([]driver.Directory{{Path: dir}}, []driver.Directory{d}))
		if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("%+v: %q, %v, %s", d, got, err, core.Remedy(err))
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 5 {
		t.Errorf("a look has changed something: %v, %v", left, err)
	}
}
