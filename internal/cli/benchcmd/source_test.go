package benchcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
)

// TestSourcesAreTheSame: a study continues with the sources that it began with, and no others.
func TestSourcesAreTheSame(t *testing.T) {
	a, dir := New(workspace.New(nil, nil, "")), t.TempDir()
	a.StateDir, a.CacheDir = t.TempDir(), t.TempDir()
	commit := strings.Repeat("ab", 20)
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("main.c", "int main() {}")
	write(".git/HEAD", "ref: refs/heads/main\n")
	write(".git/packed-refs", "# pack-refs\n"+commit+" refs/heads/main\n")
	s := &study.Study{Name: "s", Sources: map[string]study.Source{"x": {About: "x", Build: []string{"make"}}}}
	all, err := a.giveSources(t.Context(), s, map[string]string{"x": dir})
	if err != nil || len(all) != 1 || all[0].Commit != commit || len(all[0].SHA256) != 64 {
		t.Fatalf("%v, %+v", err, all)
	}
	p := &record.Plan{Study: "s", Sources: all}
	write(".git/index", "changes while the sources stay")
	if err := a.giveAgain(t.Context(), s, p); err != nil {
		t.Errorf("the same sources: %v", err)
	}
	write("main.c", "int main() { return 1; }")
	if err := a.giveAgain(t.Context(), s, p); !core.IsKind(err, core.Invalid) {
		t.Errorf("other sources: %v", err)
	}
	for name, from := range map[string]string{"y": dir, "x": "https://example.org/x.tar.gz"} {
		if _, err := a.giveSources(t.Context(), s, map[string]string{name: from}); !core.IsKind(err, core.Invalid) {
			t.Errorf("--source %s=%s: %v", name, from, err)
		}
	}
}
