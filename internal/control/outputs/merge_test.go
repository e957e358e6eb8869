package outputs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

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
			if got := testkit.Files(t, out); !maps.Equal(got, map[string]string{"keys": "mine"}) {
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
