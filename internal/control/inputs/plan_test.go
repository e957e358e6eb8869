package inputs

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

func TestInputsDoNotOverlap(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"a/x", "a/sub/y", "b/x", "b/sub/z", "single"} {
		p := filepath.Join(dir, f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("a", filepath.Join(dir, "link")), os.Symlink(filepath.Join(dir, "single"), filepath.Join(dir, "other"))); err != nil {
		t.Fatal(err)
	}
	in := func(from, to string) spec.Input { return spec.Input{From: filepath.Join(dir, from), To: to} }
	for _, c := range []struct {
		name   string
		inputs []spec.Input
		want   []string
		binds  map[string]string
	}{
		{"a directory becomes the volume", []spec.Input{in("a", "/w")}, []string{"a > volume"}, nil},
		{"a file goes into the volume", []spec.Input{in("single", "/w")}, []string{"single > volume/single"}, nil},
		{"a file under another name", []spec.Input{in("single", "/w/s")}, []string{"single > volume/s"}, nil},
		{"a file into a directory", []spec.Input{in("single", "/w/d/")}, []string{"single > volume/d/single"}, nil},
		{"two directories merge, the later wins", []spec.Input{in("a", "/w"), in("b", "/w")}, []string{"a/sub/y > volume/sub/y", "b/sub/z > volume/sub/z", "b/x > volume/x"}, nil},
		{"a link stands for the directory", []spec.Input{in("link", "/w")}, []string{"a > volume"}, nil},
		{"a link stands for the file, under its own name", []spec.Input{in("other", "/w")}, []string{"single > volume/other"}, nil},
		{"a link outside the volume", []spec.Input{in("link", "/data")}, []string{"a > inputs/0/data"}, map[string]string{"/data": "0/data"}},
		{"a pattern", []spec.Input{in("?/x", "/w/d")}, []string{"b/x > volume/d/x"}, nil},
		{"outside the volume", []spec.Input{in("a", "/data")}, []string{"a > inputs/0/data"}, map[string]string{"/data": "0/data"}},
		{"a file outside the volume", []spec.Input{in("single", "/etc/s.conf")}, []string{"single > inputs/0/s.conf"}, map[string]string{"/etc/s.conf": "0/s.conf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			copies, binds, err := Plan(&spec.Job{Volume: spec.Volume{Path: "/w"}, Inputs: c.inputs})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range copies {
				rel, _ := filepath.Rel(dir, s.Local)
				got = append(got, rel+" > "+s.Remote)
			}
			sort.Strings(got)
			if !reflect.DeepEqual(got, c.want) || len(binds) != len(c.binds) {
				t.Errorf("got %q, binds %v\nwant %q", got, binds, c.want)
			}
			for target, source := range c.binds {
				if binds[target] != source {
					t.Errorf("binds %v, want %v", binds, c.binds)
				}
			}
		})
	}
	if _, _, err := Plan(&spec.Job{Volume: spec.Volume{Path: "/w"}, Inputs: []spec.Input{in("nothing", "/w")}}); !core.IsKind(err, core.Invalid) {
		t.Errorf("a missing input: %v", err)
	}
	if _, _, err := Plan(&spec.Job{Volume: spec.Volume{Path: "/data"}, Inputs: []spec.Input{in("single", "/data/s"), in("a", "/data/s/d")}}); !core.IsKind(err, core.Invalid) {
		t.Errorf("below a file: %v", err)
	}
}
