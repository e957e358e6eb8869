package release

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// testInstall installs from a directory and from a server, again over itself, from what is
// damaged, and removes it.
func testInstall(t *testing.T, dist string) {
	home := t.TempDir()
	install := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(dist, "install.sh")}, args...)...)
		c.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	own := filepath.Join(home, ".local/bin/own")
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := install("--from", dist); err != nil || !strings.Contains(out, "Next: bee doctor") {
		t.Fatalf("install.sh: %v\n%s", err, out)
	}
	bee := filepath.Join(home, ".local/bin/bee")
	must(t, exec.CommandContext(t.Context(), bee, "version"))
	checkPages(t, filepath.Join(home, ".local/share/man"))

	testkit.RequireTool(t, "curl")
	server := httptest.NewServer(http.FileServer(http.Dir(dist)))
	defer server.Close()
	if out, err := install("--from", server.URL); err != nil {
		t.Errorf("install.sh over an installation, from a server: %v\n%s", err, out)
	}

	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.CopyFS(damaged, os.DirFS(dist)); err != nil {
		t.Fatal(err)
	}
	archive := one(t, damaged, "*-linux-*.tar.gz")
	if err := os.Truncate(archive, 1000); err != nil {
		t.Fatal(err)
	}
	if out, err := install("--from", damaged); err == nil || !strings.Contains(out, "sum of") {
		t.Errorf("install.sh of a cut archive: %v\n%s", err, out)
	}
	must(t, exec.CommandContext(t.Context(), bee, "version")) // what was there stays

	if out, err := install("--uninstall"); err != nil {
		t.Errorf("install.sh --uninstall: %v\n%s", err, out)
	}
	if out, err := install("--uninstall"); err == nil {
		t.Errorf("a second --uninstall finds something:\n%s", out)
	}
	var left []string
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, path)
		}
		return err
	})
	if err != nil || len(left) != 1 || left[0] != own {
		t.Errorf("left after --uninstall: %q, %v; expected the user's own file", left, err)
	}
}
