package pid1

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/hostdir"
)

// TestCheckMounts asks an init that has the host's own directories.
func TestCheckMounts(t *testing.T) {
	dir := t.TempDir()
	_, client, _ := startInit(t, dir)
	right, other, file := filepath.Join(dir, "right"), filepath.Join(dir, "other"), filepath.Join(dir, "file")
	for _, err := range []error{os.Mkdir(right, 0o700), os.Mkdir(other, 0o700), os.WriteFile(file, nil, 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	opened, err := hostdir.Open(t.Context(), right, true)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	mount := func(target string, readOnly bool) driver.Mount {
		return driver.Mount{Target: target, ReadOnly: readOnly, Dir: opened}
	}
	for name, c := range map[string]struct {
		mounts  []driver.Mount
		refused bool
	}{
		"none":                   {},
		"of the node's own":      {mounts: []driver.Mount{{Source: other, Target: "/missing"}}},
		"the right one":          {mounts: []driver.Mount{mount(right, false)}},
		"another directory":      {mounts: []driver.Mount{mount(other, false)}, refused: true},
		"another after it":       {mounts: []driver.Mount{mount(right, false), mount(other, false)}, refused: true},
		"a file":                 {mounts: []driver.Mount{mount(file, false)}, refused: true},
		"nothing":                {mounts: []driver.Mount{mount(filepath.Join(dir, "none"), false)}, refused: true},
		"writable, and no mount": {mounts: []driver.Mount{mount(right, true)}, refused: true},
	} {
		err := client.CheckMounts(t.Context(), c.mounts)
		if (err != nil) != c.refused || err != nil && (!core.IsKind(err, core.Unsupported) || core.Remedy(err) == "") {
			t.Errorf("%s: %v, kind %v", name, err, core.KindOf(err))
		}
	}
	if p, err := client.Exec(t.Context(), driver.Command{Args: []string{"true"}, Env: os.Environ(), Dir: "/"}); err != nil {
		t.Errorf("a container with refused mounts starts nothing more: %v", err)
	} else if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
}
