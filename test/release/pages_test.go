package release

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkPages has the pages below a directory of manual pages checked by a formatter, and
// looks for what a reader expects.
func checkPages(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "man*", "*.gz"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d manual pages in %s (%v); expected one for each command", len(files), dir, err)
	}
	for _, f := range files {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", `zcat "$1" | mandoc -Tlint -Wwarning`, "sh", f).CombinedOutput(); err != nil {
			t.Errorf("mandoc finds faults in %s (%v):\n%s", f, err, out)
		}
	}
	for page, want := range map[string]string{
		"man1/bee.1": "beefile(5)", "man1/bee-run.1": "bee run job.yaml", "man1/bee-image-build.1": "--tag",
		"man5/beefile.5": "ranks_per_node", "man5/bee-sites.5": "scratch", "man5/bee-study.5": "contrasts",
		"man7/bee-troubleshooting.7": "bee doctor", "man7/bee-environment.7": "BEE_STATE",
	} {
		text := must(t, exec.CommandContext(t.Context(), "sh", "-c", `zcat "$1" | mandoc -Tascii | col -b`, "sh", filepath.Join(dir, page+".gz")))
		if !strings.Contains(text, want) {
			t.Errorf("%s does not show %q:\n%s", page, want, text)
		}
	}
}
