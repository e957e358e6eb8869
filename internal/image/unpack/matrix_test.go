package unpack

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnythingReplacesAnything: of two layers the upper one counts, and only a directory
// over a directory keeps what was in it.
func TestAnythingReplacesAnything(t *testing.T) {
	thing := func(kind byte, name string, layer int) []entry {
		text := fmt.Sprint(layer)
		switch kind {
		case 'd':
			return []entry{dir(name, 0o755), file(name+"/in"+text, text)}
		case 'f':
			return []entry{file(name, text)}
		case 's':
			return []entry{symlink(name, "/target")}
		case 'b':
			return []entry{symlink(name, "/nowhere"+text)}
		case 'h':
			return []entry{hardlink(name, "target/keep")}
		}
		return []entry{special(name, tar.TypeFifo)}
	}
	upper := map[byte]string{'f': " = 1", 's': " -> /target", 'b': " -> /nowhere1", 'h': " = kept", 'p': " p---------"}
	lower, above := []entry{file("target/keep", "kept")}, []entry{}
	want := []string{"target/", "target/keep = kept"}
	for _, a := range []byte("bdfhps") {
		for _, b := range []byte("bdfhps") {
			name := string([]byte{a, b})
			lower, above = append(lower, thing(a, name, 0)...), append(above, thing(b, name, 1)...)
			if b != 'd' {
				want = append(want, name+upper[b])
				continue
			}
			want = append(want, name+"/")
			if a == 'd' {
				want = append(want, name+"/in0 = 0")
			}
			want = append(want, name+"/in1 = 1")
		}
	}
	root, err := unpackAll(t, DefaultLimits(), lower, above)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(listing(t, root), "\n")
	for _, w := range want {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			t.Errorf("%q is missing", w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
}

// TestHardLinksFindTheirFiles however the layer writes the target, and where the layer has
// no entry for the directory.
func TestHardLinksFindTheirFiles(t *testing.T) {
	root, err := unpackAll(t, DefaultLimits(), []entry{file("f", "text"), symlink("s", "/f"), dir("bin", 0o755)}, []entry{
		hardlink("new/dir/plain", "f"), hardlink("n2/absolute", "/f"), hardlink("n3/dot", "./f"), hardlink("n4/up", "bin/../f"), hardlink("n5/link", "s"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(filepath.Join(root, "f"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new/dir/plain", "n2/absolute", "n3/dot", "n4/up"} {
		if got, err := os.Stat(filepath.Join(root, name)); err != nil || !os.SameFile(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(root, "n5/link")); err != nil || to != "/f" {
		t.Errorf("a hard link to a link leads to %q, %v", to, err)
	}
	for name, layer := range map[string][]entry{"before its file": {hardlink("h", "t"), file("t", "x")}, "to a directory": {dir("d", 0o755), hardlink("h", "d")}} {
		if _, err := unpackAll(t, DefaultLimits(), layer); err == nil {
			t.Errorf("%s: a hard link is made", name)
		}
	}
}

// TestWhiteoutsOfManyFiles: one directory may have more files than others have in all.
func TestWhiteoutsOfManyFiles(t *testing.T) {
	const many = 5000
	lower, upper := []entry{dir("many", 0o755)}, []entry{}
	for i := range many {
		lower = append(lower, file(fmt.Sprintf("many/%05d", i), ""))
		if i > 0 {
			upper = append(upper, whiteoutOf("many", fmt.Sprintf("%05d", i)))
		}
	}
	root, err := unpackAll(t, DefaultLimits(), lower, upper)
	if err != nil {
		t.Fatal(err)
	}
	if got := listing(t, root); got != "many/\nmany/00000 = " {
		t.Errorf("left: %.200s", got)
	}
}
