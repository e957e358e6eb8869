package filestream

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestGlobStaysInside(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "a [b]*"), t.TempDir()
	for _, d := range []string{"run1", "real"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(dir, "run1", "x.csv"), filepath.Join(dir, "real", "y.csv"), filepath.Join(outside, "private.csv")} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"latest": "run1", "out": outside, "up": "..", "gone": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string][]string{
		"run1/*.csv":      {"run1/x.csv"},
		"latest/x.csv":    {"latest/x.csv"},
		"*/*.csv":         {"latest/x.csv", "real/y.csv", "run1/x.csv"},
		"out/private.csv": nil,
		"out/*":           nil,
		"up/*":            nil,
		"gone":            {"gone"}, // a link is what it is
		"":                {"."},
	} {
		found, err := Glob(dir, pattern)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			rel, _ := filepath.Rel(dir, f)
			got = append(got, rel)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q gives %q, want %q", pattern, got, want)
		}
	}
}
