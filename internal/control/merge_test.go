package control

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestOnlyWhatWasAskedForComesHome, under a name below `to:`.
func TestOnlyWhatWasAskedForComesHome(t *testing.T) {
	job := &spec.Job{
		Volume:  spec.Volume{Path: "/work"},
		Inputs:  []spec.Input{{From: "in", To: "/data/"}},
		Outputs: []spec.Output{{From: "/work/*.dat", To: "r"}, {From: "/work/*/log", To: "r"}, {From: "/work", To: "r"}, {From: "/data/out/?", To: "r"}, {From: "/etc/passwd", To: "r"}, {From: "/work/.*", To: "r"}, {From: "/work/a/../b", To: "r"}},
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
		f.Add("/work/*", m, "/d/*/x", "volume/"+m)
	}
	f.Fuzz(func(t *testing.T, from, path, from2, path2 string) {
		job := &spec.Job{Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{To: "/d"}}, Outputs: []spec.Output{{From: from, To: "/to"}, {From: from2, To: "/to"}}}
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

// TestNoLinkOfAnEarlierAttemptIsFollowed: what is merged stays in the directory, whatever
// links an earlier attempt has brought there. The directory itself may be a link.
func TestNoLinkOfAnEarlierAttemptIsFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		links, came map[string]string // links by what they lead to: OUT is outside
		to          string
		after       string // the names in the directory that are no links
	}{
		"a directory over a link":        {map[string]string{"res": "OUT"}, map[string]string{"res/keys": "x"}, "res", "res.ID/keys"},
		"below a directory that merges":  {map[string]string{"res/sub": "OUT"}, map[string]string{"res/sub/keys": "x", "res/b": "b"}, "res", "res/b res/sub.ID/keys"},
		"the directory above a name":     {map[string]string{"a": "OUT"}, map[string]string{"f": "x"}, "a/keys", "a.ID/keys"},
		"a file over a link":             {map[string]string{"keys": "OUT/keys"}, map[string]string{"f": "x"}, "keys", "keys"},
		"a link to a link":               {map[string]string{"a": "b", "b": "OUT"}, map[string]string{"a/keys": "x"}, "a", "a.ID/keys"},
		"a link that leads nowhere":      {map[string]string{"a": "OUT/new"}, map[string]string{"a/keys": "x"}, "a", "a.ID/keys"},
		"a link to a directory inside":   {map[string]string{"a": "real"}, map[string]string{"a/keys": "x"}, "a", "a.ID/keys"},
		"both names are those of links":  {map[string]string{"a": "OUT", "a.ID": "OUT"}, map[string]string{"a/keys": "x"}, "a", "a.ID.ID/keys"},
		"the name with suffix above one": {map[string]string{"a": "OUT", "a.ID": "OUT"}, map[string]string{"f": "x"}, "a/keys", "a.ID.ID/keys"},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			out, real, to := filepath.Join(top, "out"), filepath.Join(top, "real"), filepath.Join(top, "to")
			testkit.WriteFiles(t, out, map[string]string{"keys": "mine"})
			if err := os.Mkdir(real, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(real, to); err != nil { // which is its user's
				t.Fatal(err)
			}
			for link, target := range c.links {
				link = filepath.Join(to, link)
				if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(strings.ReplaceAll(target, "OUT", out), link); err != nil {
					t.Fatal(err)
				}
			}
			testkit.WriteFiles(t, filepath.Join(to, "came"), c.came)
			root, err := fsutil.OpenRoot(to)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			from := filepath.Join("came", c.to)
			if _, err := os.Lstat(filepath.Join(to, from)); err != nil {
				from = "came/f"
			}
			m := merger{root: root, suffix: ".ID", replace: true, changed: map[string]bool{}}
			if _, err := m.place(from, c.to); err != nil {
				t.Fatal(err)
			}
			if err := m.sync(); err != nil {
				t.Fatal(err)
			}
			if got := testkit.Files(t, out); !same(got, map[string]string{"keys": "mine"}) {
				t.Errorf("outside is %q", got)
			}
			var names []string
			err = root.Walk(".", func(name string, info fs.FileInfo, err error) error {
				if err == nil && info.Mode().IsRegular() {
					names = append(names, name)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(names, " "); got != c.after {
				t.Errorf("got %s, want %s", got, c.after)
			}
		})
	}
}

// TestFilesThatAppearAtOneTime at one name are all there afterwards: none takes the place of
// another that was not there when it was looked for.
func TestFilesThatAppearAtOneTime(t *testing.T) {
	to := t.TempDir()
	root, err := fsutil.OpenRoot(to)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	const files = 64
	want := map[string]bool{}
	for i := range files {
		text := strconv.Itoa(i)
		want[text] = true
		testkit.WriteFiles(t, to, map[string]string{"came/" + text: text})
	}
	var all sync.WaitGroup
	for i := range files {
		all.Go(func() {
			none := &writers{list: func(string) ([]state.Written, error) { return nil, nil }}
			m := merger{root: root, suffix: fmt.Sprint(".", i), changed: map[string]bool{}, writers: none}
			if _, err := m.place("came/"+strconv.Itoa(i), "res/f"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := testkit.Files(t, filepath.Join(to, "res"))
	for name, text := range got {
		if !want[text] {
			t.Errorf("%s has %q", name, text)
		}
		delete(want, text)
	}
	if len(got) != files || len(want) > 0 {
		t.Errorf("%d files are there of %d, lost: %v", len(got), files, want)
	}
}

// TestASiteThatNamesOthersFiles gets nothing written outside of `to:`, and the run ends
// with what was asked for.
func TestASiteThatNamesOthersFiles(t *testing.T) {
	w, home := newWorld(t, "a"), t.TempDir()
	results := filepath.Join(home, "project", "results")
	testkit.WriteFiles(t, home, map[string]string{".ssh/authorized_keys": "mine", "project/results/.git/hooks/x": "mine"})
	w.ending(t, 0, map[string]string{"volume/a.dat": "a", "volume/.git/hooks/x": "evil", ".ssh/authorized_keys": "evil"},
		protocol.OutputMatch{Path: ".."}, protocol.OutputMatch{Path: "volume/.."}, protocol.OutputMatch{Path: "volume/a.dat"},
		protocol.OutputMatch{Path: "volume/a.dat"}, protocol.OutputMatch{Path: "volume/.git"}, protocol.OutputMatch{Path: "../../.ssh"})
	run := w.drive(t, w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/*", To: results}},
	}), nil)
	if got := testkit.Files(t, home); run.State != state.Succeeded || !same(got, map[string]string{".ssh/authorized_keys": "mine", "project/results/.git/hooks/x": "mine", "project/results/a.dat": "a"}) {
		t.Errorf("%s: %q", run.State, got)
	}
	w.arrived(t, run.ID, state.Arrived{To: results, Count: 1, Names: []string{"a.dat"}})
}
