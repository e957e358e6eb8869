package head

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestLongCommandsGoByAFile(t *testing.T) {
	long := strings.Repeat("#", core.LongestArgument+1)
	for name, c := range map[string]struct {
		argv  []string
		words int // 0: refused
	}{
		"short":                  {[]string{"/bin/sh", "-c", "echo"}, 3},
		"long":                   {[]string{"/bin/sh", "-c", long}, 2},
		"long, of an entrypoint": {[]string{"/entry", "/bin/sh", "-c", long}, 3},
		"an argument":            {[]string{"echo", long}, 0},
		"in the midst":           {[]string{"/bin/sh", "-c", long, "a"}, 0},
	} {
		dir := t.TempDir()
		got, err := scripted(dir, "run", c.argv)
		if len(got) != c.words || (err != nil) != (c.words == 0) {
			t.Errorf("%s: %d words, %v", name, len(got), err)
		}
		if raw, err := os.ReadFile(filepath.Join(dir, "script-run")); strings.HasPrefix(name, "long") && (err != nil || string(raw) != long) {
			t.Errorf("%s: its file: %v", name, err)
		}
	}
}
