package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestDataImages fills, lists and empties one, and finds one that was changed
// on its way.
func TestDataImages(t *testing.T) {
	b := testkit.NewBee(t)
	b.File("in/deep/er/file", "content-somewhere-in-the-image")
	b.File("in/run.log", "log")
	b.File("in/two\nlines", "")
	image, in, out := filepath.Join(b.Work, "x.img"), filepath.Join(b.Work, "in"), filepath.Join(b.Work, "out")
	digest := strings.TrimSpace(b.Must("data", "load", "--size", "128M", image, in))
	if !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("load says %q", digest)
	}
	var v struct {
		Digest     string
		Size, Free int64
		Files      []struct{ Path, Kind string }
	}
	b.JSON(&v, "data", "ls", "--json", image)
	if v.Digest != digest || v.Size != 128<<20 || v.Free > v.Size || len(v.Files) != 5 || v.Files[2].Path != "deep/er/file" || v.Files[2].Kind != "file" {
		t.Errorf("ls: %+v", v)
	}
	if got := b.Must("data", "ls", image); !strings.Contains(got, " deep/er/file\n") || !strings.Contains(got, ` two\nlines`+"\n") {
		t.Errorf("ls: %s", got)
	}
	if got := b.Must("data", "unload", "--digest", digest, image, out); strings.TrimSpace(got) != digest {
		t.Errorf("unload says %q", got)
	}
	if got := b.Read("out/deep/er/file"); got != "content-somewhere-in-the-image" {
		t.Errorf("out came %q", got)
	}
	b.Must("data", "unload", "--path", "*.log", image, filepath.Join(b.Work, "logs"))
	if entries, err := os.ReadDir(filepath.Join(b.Work, "logs")); err != nil || len(entries) != 1 {
		t.Errorf("a part of it: %v, %v", entries, err)
	}
	for pattern, code := range map[string]int{"*.lgo": 202, "[": 201} {
		nothing := filepath.Join(b.Work, "nothing")
		if r := b.Try("data", "unload", "--path", "*.log", "--path", pattern, image, nothing); r.Code != code || !strings.Contains(r.Stderr, pattern) {
			t.Errorf("%s: %+v", pattern, r)
		}
		if entries, _ := os.ReadDir(nothing); len(entries) > 0 {
			t.Errorf("%s brought %v", pattern, entries)
		}
	}
	if r := b.Try("data", "load", image, in); r.Code == 0 || !strings.Contains(r.Stderr, "--force") {
		t.Errorf("an image that is there was replaced: %+v", r)
	}

	raw, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(raw), "content-somewhere")
	if at < 0 {
		t.Fatal("the content is not in the image")
	}
	raw[at] = 'K'
	if err := os.WriteFile(image, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := b.Fail("data", "unload", "--digest", digest, image, filepath.Join(b.Work, "bad")); f.Kind != "permanent" || !strings.Contains(f.Message, digest) {
		t.Errorf("a changed image was taken: %+v", f)
	}
}
