package inputs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestLinksThatLeadOutOfInputs: what lies in the directory of the user's own Beefile comes in
// their place, unless it travels where they lead, too. All others stay links and are
// reported, and so are all of another user's Beefile.
func TestLinksThatLeadOutOfInputs(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	testkit.WriteFiles(t, dir, map[string]string{
		"own/case/in": "1", "own/shared/mesh/m": "2", "own/shared/f": "3", "own/shared/g": "4", "own/other/x": "5", "own/.git/config": "6", "key": "secret",
	})
	for link, to := range map[string]string{
		"case/inside": "in", "case/mesh": "../shared/mesh", "case/f": "../shared/f", "case/whole": own + "/shared/f", "case/beside": "../other/x",
		"shared/mesh/more": "../g", "shared/mesh/back": "../mesh",
		"case/circle": "..", "case/gone": "nowhere", "case/hidden": "../.git/config", "case/key": "../../key", "case/host": "/dev/null", "case/loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(own, link)); err != nil {
			t.Fatal(err)
		}
	}
	job := &spec.Job{Volume: spec.Volume{Path: "/w"}, Inputs: []spec.Input{{From: own + "/case", To: "/w/case"}, {From: own + "/other", To: "/w/other"}}}
	copies, _, err := Plan(job)
	if err != nil {
		t.Fatal(err)
	}
	follow := func(own string) (added []string) {
		t.Helper()
		all, err := FollowLinks(t.Context(), job, own, copies)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all[len(copies):] {
			added = append(added, strings.TrimPrefix(c.Local, own)+" > "+c.Remote)
			if c.Within != own {
				t.Errorf("%s may lead out of %q", c.Local, c.Within)
			}
		}
		slices.Sort(added)
		return added
	}
	left := func(own string) (names []string) {
		for _, text := range Warnings(t.Context(), job, own) {
			_, link, _ := strings.Cut(text, "the link "+dir+"/own/")
			link, _, _ = strings.Cut(link, " -> ")
			names = append(names, link)
		}
		slices.Sort(names)
		return names
	}
	want := []string{"/shared/f > volume/case/f", "/shared/f > volume/case/whole", "/shared/g > volume/case/mesh/more", "/shared/mesh > volume/case/mesh"}
	if got := follow(own); !slices.Equal(got, want) {
		t.Errorf("there come %q, want %q", got, want)
	}
	if got := follow(""); got != nil {
		t.Errorf("of another user's Beefile there come %q", got)
	}
	want = []string{"case/circle", "case/gone", "case/hidden", "case/host", "case/key", "case/loop"}
	if got := left(own); !slices.Equal(got, want) {
		t.Errorf("reported are %q, want %q", got, want)
	}
	want = []string{"case/circle", "case/f", "case/gone", "case/hidden", "case/host", "case/key", "case/loop", "case/mesh", "case/whole"}
	if got := left(""); !slices.Equal(got, want) {
		t.Errorf("of another user's Beefile are reported %q, want %q", got, want)
	}
	for i := range mostWarned {
		if err := os.Symlink("nowhere", filepath.Join(own, "case", "n"+string(rune('a'+i)))); err != nil {
			t.Fatal(err)
		}
	}
	if list := Warnings(t.Context(), job, own); len(list) != mostWarned+1 {
		t.Errorf("%d warnings: %q", len(list), list)
	}
}

// TestLinksThatMultiply: directories with links to each other, level by level, are refused.
func TestLinksThatMultiply(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const levels = 14 // 2 to this power of links
	for i := range levels {
		level := filepath.Join(dir, "d"+string(rune('a'+i)))
		if err := os.Mkdir(level, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x", "y"} {
			if err := os.Symlink("../d"+string(rune('a'+i+1)), filepath.Join(level, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.WriteFiles(t, dir, map[string]string{"d" + string(rune('a'+levels)) + "/f": "1"})
	job := &spec.Job{Volume: spec.Volume{Path: "/w"}, Inputs: []spec.Input{{From: dir + "/da", To: "/w/in"}}}
	copies, _, err := Plan(job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FollowLinks(t.Context(), job, dir, copies); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
}
