package verbs

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// compile builds one of programs/, with sources of the library.
func compile(t *testing.T, flags, files []string, libraries ...string) string {
	cc, root := testkit.RequireTool(t, "gcc"), testkit.Root(t)
	out := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread", "-I", filepath.Join(root, "verbs"), "-o", out}, flags...)
	for _, f := range files {
		args = append(args, filepath.Join(root, f))
	}
	args = append(args, libraries...)
	if b, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return out
}

func TestRingsUnderSanitizers(t *testing.T) {
	for _, s := range []string{"address,undefined", "thread"} {
		t.Run(s, func(t *testing.T) {
			t.Parallel()
			program := compile(t, []string{"-fsanitize=" + s, "-fno-sanitize-recover=all"}, []string{"test/verbs/programs/ring.c", "verbs/ring.c"})
			if b, err := exec.Command(program, "7").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, b)
			}
		})
	}
}
