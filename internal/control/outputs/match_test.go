package outputs

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/control/inputs"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestOnlyWhatWasAskedForComesHome, under a name below `to:`.
func TestOnlyWhatWasAskedForComesHome(t *testing.T) {
	job := &spec.Job{
		Volume:  spec.Volume{Path: "/w"},
		Inputs:  []spec.Input{{From: "in", To: "/data/"}},
		Outputs: []spec.Output{{From: "/w/*.dat", To: "r"}, {From: "/w/*/log", To: "r"}, {From: "/w", To: "r"}, {From: "/data/out/?", To: "r"}, {From: "/etc/passwd", To: "r"}, {From: "/w/.*", To: "r"}, {From: "/w/a/../b", To: "r"}},
	}
	for _, c := range []struct {
		index int
		path  string
		taken bool
	}{
		{0, "volume/a.dat", true},
		{1, "volume/x/log", true},
		{1, "volume/y/log", true},
		{2, "volume", true},
		{3, "inputs/0/data/out/z", true},
		{5, "volume/.profile", true},
		{0, "volume/a.dat", false}, // once more
		{-1, "volume/a.dat", false},
		{7, "volume/a.dat", false},
		{1 << 40, "volume/a.dat", false},
		{0, "..", false},
		{0, "volume/..", false},
		{5, "volume/..", false},
		{5, "volume/.", false},
		{0, "volume/../../x.dat", false},
		{0, "/volume/b.dat", false},
		{0, "volume//b.dat", false},
		{0, "volume/sub/b.dat", false},
		{0, "volume/.b.dat", false},
		{0, "volume/.ssh", false},
		{0, "inputs/0/data/b.dat", false},
		{0, "volumes/b.dat", false},
		{0, "", false},
		{1, "volume/../log", false},
		{1, "volume/.git/log", false},
		{2, "volume/b.dat", false},
		{3, "volume/z", false},
		{4, "etc/passwd", false},
		{6, "volume/a/../b", false},
	} {
		m := []protocol.OutputMatch{{Index: c.index, Path: c.path}}
		if c.path == "volume/a.dat" && c.index == 0 {
			m = append(m, m...)
		}
		list, refused := placed(job, m)
		if taken := len(list) == 1; taken != (c.taken || len(m) == 2) || len(refused) != len(m)-len(list) {
			t.Errorf("%d %q: %+v, refused %q", c.index, c.path, list, refused)
		}
		for _, o := range list {
			if !filepath.IsLocal(o.name) || !strings.HasPrefix(o.local(), "r/") {
				t.Errorf("%q goes to %q", c.path, o.local())
			}
		}
	}
	list, _ := placed(job, []protocol.OutputMatch{{Index: 1, Path: "volume/x/log"}, {Index: 1, Path: "volume/y/log"}})
	if len(list) != 2 || list[0].local() != "r/x/log" || list[1].local() != "r/y/log" {
		t.Errorf("two of one name: %+v", list)
	}
}

func FuzzPlaced(f *testing.F) {
	for _, m := range []string{"volume/a.dat", "..", "volume/../x", "inputs/0/d/x", "volume"} {
		f.Add("/w/*", m, "/d/*/x", "volume/"+m)
	}
	f.Fuzz(func(t *testing.T, from, path, from2, path2 string) {
		job := &spec.Job{Volume: spec.Volume{Path: "/w"}, Inputs: []spec.Input{{To: "/d"}}, Outputs: []spec.Output{{From: from, To: "/to"}, {From: from2, To: "/to"}}}
		list, _ := placed(job, []protocol.OutputMatch{{Path: path}, {Index: 1, Path: path2}, {Path: path2}})
		for _, o := range list {
			if base := filepath.Base(from); base == "/" || base == "." || base == ".." || strings.HasPrefix(filepath.Base(from2), "..") {
				continue // which no Beefile has
			}
			if !filepath.IsLocal(o.name) || o.name == "." || !filepath.IsLocal(o.remote) {
				t.Errorf("%+v", o)
			}
		}
	})
}

// TestInputsHaveTheirPlacesAfterAMove: those outside of the volume are where outputs below them
// are looked for, though the checkpoint has others.
func TestInputsHaveTheirPlacesAfterAMove(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFiles(t, dir, map[string]string{"a/x": "x", "b/y": "y"})
	job := &spec.Job{
		Volume: spec.Volume{Path: "/w"}, Inputs: []spec.Input{{From: filepath.Join(dir, "a"), To: "/w/a"}, {From: filepath.Join(dir, "b"), To: "/data"}},
		Outputs: []spec.Output{{From: "/data/out", To: dir}},
	}
	copies, err := inputs.PlanAt(inputs.WithoutVolume(job), inputs.Binds(job))
	if err != nil || len(copies) != 1 {
		t.Fatalf("%+v, %v", copies, err)
	}
	list, refused := placed(job, []protocol.OutputMatch{{Path: path.Join(copies[0].Remote, "out")}})
	if len(list) != 1 || len(refused) != 0 {
		t.Errorf("an output below %s: %+v, refused %q", copies[0].Remote, list, refused)
	}
}
