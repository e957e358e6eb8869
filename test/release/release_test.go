// Package release checks what `make release` writes: that it installs, in each of its
// forms, that it says what is wrong, and that equal sources give equal bytes.
package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

const version = "0.1.0"

// TestRelease makes one for this architecture and installs it in each of its forms.
func TestRelease(t *testing.T) {
	testkit.RequireRoot(t) // packages are installed into roots of their own
	for _, tool := range []string{"nfpm", "cyclonedx-gomod", "dpkg", "rpm", "mandoc", "python3"} {
		testkit.RequireTool(t, tool)
	}
	root := testkit.Root(t)
	dist, key := filepath.Join(t.TempDir(), "dist"), signingKey(t)
	build(t, root, dist)
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("sums name everything", func(t *testing.T) {
		files, err := os.ReadDir(dist)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), "SHA256SUMS") && !strings.Contains(string(sums), "  "+f.Name()+"\n") {
				t.Errorf("SHA256SUMS lacks %s:\n%s", f.Name(), sums)
			}
		}
	})
	t.Run("install.sh", func(t *testing.T) { testInstall(t, dist) })
	t.Run("signature", func(t *testing.T) { testSignature(t, dist, key) })
	t.Run("recipes", func(t *testing.T) { testRecipes(t, dist) })
	t.Run("image", func(t *testing.T) { testImage(t, dist) })
	t.Run("the first minutes", func(t *testing.T) { testFirstMinutes(t, dist) })
	t.Run("deb", func(t *testing.T) {
		into := t.TempDir()
		dpkg := filepath.Join(into, "var/lib/dpkg")
		if err := os.MkdirAll(filepath.Join(dpkg, "updates"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"status", "available"} {
			if err := os.WriteFile(filepath.Join(dpkg, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		must(t, exec.CommandContext(t.Context(), "dpkg", "--root="+into, "--force-depends", "--install", one(t, dist, "*.deb")))
		checkInstalled(t, into)
	})
	t.Run("rpm", func(t *testing.T) {
		into := t.TempDir()
		must(t, exec.CommandContext(t.Context(), "rpm", "--root="+into, "--nodeps", "--install", one(t, dist, "*.rpm")))
		checkInstalled(t, into)
	})
	t.Run("wheel", func(t *testing.T) { testWheel(t, one(t, dist, "*.whl")) })
	t.Run("list of modules", func(t *testing.T) {
		raw, err := os.ReadFile(one(t, dist, "*.cdx.json"))
		if err != nil || !bytes.Contains(raw, []byte("pkg:golang/github.com/spf13/cobra@")) {
			t.Errorf("the list of modules does not name cobra (%v):\n%.500s", err, raw)
		}
	})
	t.Run("licences", func(t *testing.T) {
		text := must(t, exec.CommandContext(t.Context(), "tar", "-xOf", one(t, dist, "*-linux-*.tar.gz"), "--wildcards", "*/LICENSES-OF-PARTS.txt"))
		for _, want := range []string{"=== Go ", "=== github.com/spf13/cobra ", "=== modernc.org/sqlite ", "--- zstd/internal/xxhash/LICENSE.txt"} {
			if !strings.Contains(text, want) {
				t.Errorf("licences of parts lack %q", want)
			}
		}
	})
	t.Run("equal sources give equal bytes", func(t *testing.T) {
		again, source := filepath.Join(t.TempDir(), "dist"), root
		if testkit.Everything() { // else only packing is done again, as the compiler's results are kept
			source = filepath.Join(t.TempDir(), "another", "directory")
			must(t, exec.CommandContext(t.Context(), "git", "clone", "--quiet", root, source))
			t.Setenv("GOCACHE", t.TempDir())
		}
		build(t, source, again)
		one, err1 := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
		two, err2 := os.ReadFile(filepath.Join(again, "SHA256SUMS"))
		if err1 != nil || err2 != nil || !bytes.Equal(one, two) {
			t.Errorf("two builds differ (%v, %v):\n%s\n%s", err1, err2, one, two)
		}
	})
}

// testImage runs the image of bee itself by bee.
func testImage(t *testing.T, dist string) {
	bee := testkit.NewBee(t)
	for form, pattern := range map[string]string{"docker-archive": "*.image.tar", "oci-archive": "*.oci.tar"} {
		if out := bee.Must("run", "-q", form+":"+one(t, dist, pattern), "version"); !strings.Contains(out, version) {
			t.Errorf("bee of the image as %s prints %q", form, out)
		}
	}
}

func build(t *testing.T, source, dist string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(source, "hack", "release.sh"), dist)
	c.Env = append(os.Environ(), "VERSION="+version, "ARCHES=amd64", "SOURCE_DATE_EPOCH=1700000000")
	must(t, c)
}

func must(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c, err, out)
	}
	return string(out)
}

// one returns the only file in dir that matches.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %s in %s: %q, %v; expected one", pattern, dir, files, err)
	}
	return files[0]
}

// checkInstalled runs the program below a root, and reads its pages.
func checkInstalled(t *testing.T, root string) {
	t.Helper()
	if out := must(t, exec.CommandContext(t.Context(), filepath.Join(root, "usr/bin/bee"), "version")); !strings.Contains(out, version) {
		t.Errorf("bee version = %q", out)
	}
	checkPages(t, filepath.Join(root, "usr/share/man"))
	for _, file := range []string{"share/bash-completion/completions/bee", "share/fish/vendor_completions.d/bee.fish", "share/doc/bee-hpc/examples/gromacs/job.yaml"} {
		if _, err := os.Stat(filepath.Join(root, "usr", file)); err != nil {
			t.Error(err)
		}
	}
}
