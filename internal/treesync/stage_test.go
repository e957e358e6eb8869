package treesync

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// jobTree makes a tree of names: "d/" is a directory, "l -> t" a link, "p|" a FIFO, other
// names are files that hold their name.
func jobTree(t *testing.T, dir string, names ...string) *fsutil.Root {
	t.Helper()
	for _, name := range names {
		link, target, isLink := strings.Cut(name, " -> ")
		at := filepath.Join(dir, strings.TrimSuffix(link, "|"))
		must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case isLink:
			must(t, os.Symlink(target, at))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(at, 0o755))
		case strings.HasSuffix(name, "|"):
			must(t, unix.Mkfifo(at, 0o600))
		default:
			must(t, os.WriteFile(at, []byte(name), 0o644))
		}
	}
	r, err := fsutil.OpenRoot(dir)
	must(t, err)
	r.Seen = "/work"
	t.Cleanup(func() { r.Close() })
	return r
}

// treeOf is the reverse: links with their text, and files with "=" and what they hold,
// where that is not their name.
func treeOf(t *testing.T, r *fsutil.Root, top string) []string {
	t.Helper()
	var names []string
	must(t, r.Walk(top, func(name string, info fs.FileInfo, err error) error {
		must(t, err)
		rel, err := filepath.Rel(top, name)
		must(t, err)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			text, err := r.Readlink(name)
			must(t, err)
			rel += " -> " + text
		case info.IsDir():
			rel += "/"
		case info.Mode().IsRegular():
			raw, err := r.ReadFile(name, 100)
			must(t, err)
			rel += "=" + string(raw)
		default:
			rel += "?"
		}
		names = append(names, rel)
		return nil
	}))
	slices.Sort(names)
	return names
}

func TestOutputsDoNotDependOnWhatStays(t *testing.T) {
	for name, c := range map[string]struct {
		tree   []string
		match  string
		from   string // as it is in the tree; "": it is staged
		staged string
		left   string
	}{
		"a file":                      {[]string{"f"}, "f", "f", "", ""},
		"a directory":                 {[]string{"d/f", "d/l -> f", "d/up -> ../d/f", "d/gone -> nowhere"}, "d", "", "./ f=d/f gone -> nowhere l -> f up -> f", ""},
		"a plain directory":           {[]string{"d/f", "d/l -> f", "d/s/up -> ../f", "d/gone -> nowhere", "d/self -> ."}, "d", "d", "", ""},
		"the tree":                    {[]string{"d/f", "l -> d"}, ".", ".", "", ""},
		"a link to a directory":       {[]string{"run1/f", "latest -> run1"}, "latest", "run1", "", ""},
		"an absolute link":            {[]string{"run1/f", "latest -> /work/run1"}, "latest", "run1", "", ""},
		"a chain":                     {[]string{"run1/f", "latest -> run1", "l -> latest/f"}, "l", "run1/f", "", ""},
		"through a link":              {[]string{"run1/f", "latest -> run1"}, "latest/f", "run1/f", "", ""},
		"a link out":                  {[]string{"l -> /etc/passwd"}, "l", "", "", "l outside"},
		"a relative link out":         {[]string{"l -> ../etc/passwd"}, "l", "", "", "l outside"},
		"a link to nothing":           {[]string{"l -> nowhere"}, "l", "", "", "l nothing"},
		"a circle":                    {[]string{"a -> b", "b -> a"}, "a", "", "", "a loop"},
		"a FIFO":                      {[]string{"p|"}, "p", "", "", "p special"},
		"a link to a FIFO":            {[]string{"p|", "l -> p"}, "l", "", "", "p special"},
		"an absolute link below":      {[]string{"d/f", "d/s/abs -> /work/d/f"}, "d", "", "./ f=d/f s/ s/abs -> ../f", ""},
		"a link to what stays":        {[]string{"d/l -> ../x/f", "x/f"}, "d", "", "./ l=x/f", ""},
		"to a directory that stays":   {[]string{"d/l -> ../x", "d/m -> ../x/f", "x/f", "x/own -> f"}, "d", "", "./ l/ l/f=x/f l/own -> f m -> l/f", ""},
		"over a link that stays":      {[]string{"d/l -> ../latest/f", "d/f", "latest -> d"}, "d", "", "./ f=d/f l -> f", ""},
		"links out below":             {[]string{"d/f", "d/etc -> /etc", "d/up -> ../../x"}, "d", "", "./ f=d/f", "d/etc outside, d/up outside"},
		"specials below":              {[]string{"d/f", "d/p|", "d/s/p|"}, "d", "", "./ f=d/f s/", "d/p special, d/s/p special"},
		"a circle below":              {[]string{"d/f", "d/l -> l", "d/a -> ../b", "b -> d/a"}, "d", "", "./ f=d/f", "d/a loop, d/l loop"},
		"directories into each other": {[]string{"a/l -> ../b", "b/l -> ../a", "b/f"}, "a", "", "./ l/ l/f=b/f l/l -> ..", ""},
		"a link to the tree":          {[]string{"d/f", "d/l -> ..", "x"}, "d", "", "./ f=d/f l/ l/d/ l/d/f=d/f l/d/l -> .. l/x=x", ""},
		"a link out of what came":     {[]string{"d/l -> ../x", "x/out -> /etc", "x/f"}, "d", "", "./ l/ l/f=x/f", "x/out outside"},
		"a link to nothing, far":      {[]string{"d/f", "d/l -> ../nowhere"}, "d", "", "./ f=d/f", "d/l nothing"},
		"to nothing, absolute":        {[]string{"d/f", "d/l -> /work/nowhere"}, "d", "", "./ f=d/f", "d/l nothing"},
		"over a file":                 {[]string{"d/f", "d/l -> f/x"}, "d", "d", "", ""},
		"hidden files":                {[]string{"d/.f", "d/l -> ../.x", ".x"}, "d", "", "./ .f=d/.f l=.x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in, stage := jobTree(t, t.TempDir(), c.tree...), jobTree(t, t.TempDir())
			var left []string
			o := Outputs{In: in, Stage: stage, Left: func(name string, why Why) { left = append(left, name+" "+string(why)) }}
			from, staged, err := o.Prepare(t.Context(), c.match, "0")
			must(t, err)
			slices.Sort(left)
			if got := strings.Join(left, ", "); got != c.left {
				t.Errorf("left %s, want %s", got, c.left)
			}
			if c.staged == "" {
				if from != c.from || staged {
					t.Errorf("from %q, staged %v, want %q", from, staged, c.from)
				}
				return
			}
			if from != "0" || !staged {
				t.Fatalf("from %q, staged %v", from, staged)
			}
			if got := strings.Join(treeOf(t, stage, "0"), " "); got != c.staged {
				t.Errorf("staged\n%s, want\n%s", got, c.staged)
			}
			before := treeOf(t, in, ".")
			to := filepath.Join(t.TempDir(), "to")
			must(t, Copy(t.Context(), stage.Path("0"), to, nil))
			must(t, stage.RemoveAll("0"))
			if after := treeOf(t, in, "."); !slices.Equal(before, after) {
				t.Errorf("the tree was changed: %q, was %q", after, before)
			}
		})
	}
}

func TestStagedFilesKeepWhatTheyAre(t *testing.T) {
	in, stage := jobTree(t, t.TempDir(), "d/a", "d/s/f", "d/out -> /etc"), jobTree(t, t.TempDir())
	must(t, os.Link(in.Path("d/a"), in.Path("d/b")))
	must(t, os.Chmod(in.Path("d/a"), 0o751))
	must(t, os.Chmod(in.Path("d/s"), 0o555))
	t.Cleanup(func() {
		for _, dir := range []string{in.Path("d/s"), stage.Path("7/s")} {
			must(t, os.Chmod(dir, 0o755))
		}
	})
	o := Outputs{In: in, Stage: stage, Left: func(string, Why) {}}
	_, staged, err := o.Prepare(t.Context(), "d", "7")
	must(t, err)
	if !staged {
		t.Fatal("not staged")
	}
	for _, name := range []string{"a", "b", "s", "s/f", "."} {
		was, err := in.Lstat(filepath.Join("d", name))
		must(t, err)
		is, err := stage.Lstat(filepath.Join("7", name))
		must(t, err)
		if was.Mode() != is.Mode() || !was.ModTime().Equal(is.ModTime()) || !was.IsDir() && !os.SameFile(was, is) {
			t.Errorf("%s: %v %v, was %v %v", name, is.Mode(), is.ModTime(), was.Mode(), was.ModTime())
		}
	}
}

// FuzzOutputs: whatever links a tree has, preparing ends, and nothing that travels leads
// out of what travels, but for links to nothing.
func FuzzOutputs(f *testing.F) {
	f.Add("../x", "/work/d", "a/../..", "../../d/l1")
	f.Add("l2", "l1", "..", "/work")
	f.Add("../x/l3", "../y", "../d/l2/l1", ".")
	f.Fuzz(func(t *testing.T, l1, l2, l3, l4 string) {
		dir := t.TempDir()
		in, stage := jobTree(t, dir, "d/f", "d/s/g", "x/h", "y/i"), jobTree(t, t.TempDir())
		for link, to := range map[string]string{"d/l1": l1, "d/s/l2": l2, "x/l3": l3, "l4": l4, "y/l1": l4} {
			os.Symlink(to, filepath.Join(dir, link)) //nolint:errcheck // not every text is a target
		}
		o := Outputs{In: in, Stage: stage, Left: func(string, Why) {}}
		for i, match := range []string{"d", "l4", "x", "."} {
			as := fmt.Sprint(i)
			from, staged, err := o.Prepare(t.Context(), match, as)
			if err != nil {
				t.Fatalf("%s: %v", match, err)
			}
			if from == "" {
				continue
			}
			root := in
			if staged {
				root = stage
			}
			sub, err := root.Sub(from)
			if err != nil {
				continue // a file
			}
			must(t, sub.Walk(".", func(name string, info fs.FileInfo, err error) error {
				must(t, err)
				if info.Mode()&fs.ModeSymlink == 0 {
					return nil
				}
				sub.Seen = ""
				if _, err := sub.Resolve(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
					text, _ := sub.Readlink(name)
					t.Errorf("%s: %s -> %s: %v", match, name, text, err)
				}
				return nil
			}))
			sub.Close()
		}
	})
}
