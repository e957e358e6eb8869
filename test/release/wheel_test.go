package release

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testWheel installs a wheel into a fresh virtual environment without network, where it is
// all that the command and the package need, and removes it.
func testWheel(t *testing.T, wheel string) {
	env := filepath.Join(t.TempDir(), "env")
	python := filepath.Join(env, "bin", "python")
	must(t, exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", env))
	pip := func(args ...string) {
		must(t, exec.CommandContext(t.Context(), "python3", append([]string{"-m", "pip", "--python", python}, args...)...))
	}
	pip("install", "--no-index", "--no-compile", wheel)
	bee := filepath.Join(env, "bin", "bee")
	if out := must(t, exec.CommandContext(t.Context(), bee, "version")); !strings.Contains(out, version) {
		t.Errorf("bee version = %q", out)
	}
	c := exec.CommandContext(t.Context(), python, "-c", "import bee._program; print(bee.version(), bee._program.find_program())")
	c.Env = []string{"HOME=" + t.TempDir(), "PATH=/nowhere"}
	if out := must(t, c); out != version+" "+bee+"\n" {
		t.Errorf("the package calls %q, want %s of version %s", out, bee, version)
	}
	for _, file := range []string{"snakemake_executor_plugin_bee/__init__.py", "bee_parsl/__init__.py", "bee_psij/plugin.py", "psij-descriptors/bee_descriptor.py"} {
		one(t, filepath.Join(env, "lib", "python3*", "site-packages", filepath.Dir(file)), filepath.Base(file))
	}
	pip("check")
	pip("uninstall", "-y", "bee-hpc")
	if left, err := filepath.Glob(filepath.Join(env, "*", "bee*")); err != nil || len(left) > 0 {
		t.Errorf("left after pip uninstall: %q, %v", left, err)
	}
}
