package tarcopy

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// tree makes files: a name that ends with a slash is a directory, "→" begins a link.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		var err error
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		switch target, isLink := strings.CutPrefix(content, "→"); {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		case isLink:
			err = os.Symlink(target, p)
		default:
			err = os.WriteFile(p, []byte(content), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheRulesOfDockerCp, each by its own line of docker's manual.
func TestTheRulesOfDockerCp(t *testing.T) {
	for _, c := range []struct {
		name, from, to string
		there          map[string]string // beside the source
		want           string            // a file that is there then
		kind           core.Kind         // 0: it works
	}{
		{"file, target absent", "src/f", "new", nil, "new", 0},
		{"file, target absent, with a slash", "src/f", "new/", nil, "", core.NotFound},
		{"file over a file", "src/f", "old", map[string]string{"old": "was"}, "old", 0},
		{"file into a directory", "src/f", "d", map[string]string{"d/": ""}, "d/f", 0},
		{"directory, target absent", "src", "new", nil, "new/f", 0},
		{"directory to a file", "src", "old", map[string]string{"old": "was"}, "", core.Invalid},
		{"directory into a directory", "src", "d", map[string]string{"d/": ""}, "d/src/f", 0},
		{"content into a directory", "src/.", "d", map[string]string{"d/": ""}, "d/f", 0},
		{"content, target absent", "src/.", "new", nil, "new/f", 0},
		{"no source", "absent", "new", nil, "", core.NotFound},
		{"no directory above", "src/f", "a/b/c", nil, "", core.NotFound},
		{"a link as the source", "link", "new", map[string]string{"link": "→src/f"}, "new", 0},
		{"a link as the target", "src/f", "link", map[string]string{"d/": "", "link": "→d"}, "d/f", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			tree(t, dir, map[string]string{"src/f": "content", "src/below/deep": "x", "src/below/up": "→../f"})
			tree(t, dir, c.there)
			var stream bytes.Buffer
			err := Send(t.Context(), &stream, dir+"/"+c.from, nil)
			if err == nil {
				err = Receive(t.Context(), &stream, Target{Path: dir + "/" + c.to, Name: Name(c.from)}, nil)
			}
			if c.kind != 0 {
				if !core.IsKind(err, c.kind) || core.Remedy(err) == "" {
					t.Errorf("got %v", err)
				}
				return
			}
			got, rerr := os.ReadFile(filepath.Join(dir, c.want))
			if err != nil || rerr != nil || string(got) != "content" {
				t.Errorf("%v, %v: %q", err, rerr, got)
			}
			info, err := os.Stat(filepath.Join(dir, c.want))
			if err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
		})
	}
}

// TestWhatIsReceivedStaysBelow, whatever the other end sends.
func TestWhatIsReceivedStaysBelow(t *testing.T) {
	dir := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644} }
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
	}
	for name, list := range map[string][]tar.Header{
		"a name above":             {dir("s"), file("s/../../out")},
		"an absolute name":         {dir("s"), file("/out")},
		"beside the source":        {dir("s"), file("other/out")},
		"through a link":           {dir("s"), link("s/l", ".."), file("s/l/out")},
		"through a link that is":   {dir("s"), file("s/there/out")},
		"an absolute link":         {dir("s"), link("s/l", "/etc/passwd")},
		"a link above":             {dir("s"), dir("s/b"), link("s/b/l", "../../out")},
		"a link by way of another": {dir("s"), dir("s/p"), dir("s/q"), link("s/p/a", "../q"), link("s/p/l", "a/../../out")},
		"a device":                 {dir("s"), {Name: "s/dev", Typeflag: tar.TypeChar, Devmajor: 1}},
		"a hard link":              {dir("s"), {Name: "s/h", Typeflag: tar.TypeLink, Linkname: "../out"}},
		"a second file":            {file("s"), file("out")},
		"a link alone":             {link("s", "/etc/passwd")},
		"nothing":                  {},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			tree(t, top, map[string]string{"d/s/there": "→../..", "d/s/keep": "kept"})
			var stream bytes.Buffer
			w := tar.NewWriter(&stream)
			for _, h := range list {
				if err := w.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := Receive(t.Context(), &stream, Target{Path: filepath.Join(top, "d"), Name: "s"}, nil); err == nil {
				t.Error("it is taken without an error")
			} else if core.Remedy(err) == core.RemedyAgain {
				t.Errorf("the same archive is to be given again: %v", err)
			}
			var out []string
			for _, at := range []string{"out", "d/out"} {
				if _, err := os.Lstat(filepath.Join(top, at)); err == nil {
					out = append(out, at)
				}
			}
			names, err := os.ReadDir(top)
			if err != nil || len(out) > 0 || len(names) != 1 {
				t.Errorf("%v is outside; %v", out, names)
			}
		})
	}
}

func TestArchivesGoIntoADirectory(t *testing.T) {
	top := t.TempDir()
	tree(t, top, map[string]string{"src/f": "content", "src/closed/x": "y", "d/": ""})
	if err := os.Chmod(filepath.Join(top, "src/closed"), 0o500); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	last := int64(0)
	if err := Send(t.Context(), &stream, filepath.Join(top, "src"), func(done int64) { last = done }); err != nil || last != 8 {
		t.Fatalf("%v, %d bytes", err, last)
	}
	raw := stream.Bytes()
	if err := Receive(t.Context(), bytes.NewReader(raw), Target{Path: filepath.Join(top, "d")}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(top, "d/src/closed/x")); err != nil || string(got) != "y" {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Stat(filepath.Join(top, "d/src/closed")); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Receive(t.Context(), bytes.NewReader(raw), Target{Path: filepath.Join(top, "absent")}, nil); !core.IsKind(err, core.NotFound) {
		t.Errorf("without a directory: %v", err)
	}
	if err := Receive(t.Context(), bytes.NewReader(raw[:700]), Target{Path: filepath.Join(top, "d")}, nil); err == nil {
		t.Error("a stream that is cut is taken")
	}
	os.Chmod(filepath.Join(top, "src/closed"), 0o700)   //nolint:errcheck // for the end of the test
	os.Chmod(filepath.Join(top, "d/src/closed"), 0o700) //nolint:errcheck // likewise
}

func FuzzReceive(f *testing.F) {
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	w.WriteHeader(&tar.Header{Name: "s/", Typeflag: tar.TypeDir, Mode: 0o755})           //nolint:errcheck // to memory
	w.WriteHeader(&tar.Header{Name: "s/l", Typeflag: tar.TypeSymlink, Linkname: "../x"}) //nolint:errcheck // to memory
	w.Close()
	f.Add(stream.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		top := t.TempDir()
		if err := os.Mkdir(filepath.Join(top, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		Receive(t.Context(), bytes.NewReader(raw), Target{Path: filepath.Join(top, "d"), Name: "s"}, nil) //nolint:errcheck // it must stay below
		if names, err := os.ReadDir(top); err != nil || len(names) != 1 {
			t.Errorf("%v, %v", names, err)
		}
	})
}
