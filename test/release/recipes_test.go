package release

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/goccy/go-yaml"
)

// testRecipes has the recipes of package managers with the values of a release, and installs by
// those whose manager is here.
func testRecipes(t *testing.T, dist string) {
	into := t.TempDir()
	must(t, exec.CommandContext(t.Context(), "tar", "-C", into, "--strip-components=1", "-xzf", one(t, dist, "*-recipes.tar.gz")))
	archive := one(t, dist, "*-linux-amd64.tar.gz")
	raw, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	for _, recipe := range []string{"spack/package.py", "easybuild/bee-hpc.eb", "conda/meta.yaml"} {
		text, err := os.ReadFile(filepath.Join(into, recipe))
		if err != nil || strings.Contains(string(text), "@") || !strings.Contains(string(text), version) || !strings.Contains(string(text), hex.EncodeToString(sum[:])) {
			t.Errorf("%s (%v):\n%s", recipe, err, text)
		}
		if filepath.Ext(recipe) == ".yaml" {
			var v any
			if err := yaml.Unmarshal(text, &v); err != nil {
				t.Errorf("%s: %v", recipe, err)
			}
			continue
		}
		must(t, exec.CommandContext(t.Context(), "python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())", filepath.Join(into, recipe)))
	}

	const lmod = "/usr/share/lmod/lmod/init/bash"
	if _, err := os.Stat(lmod); err != nil {
		testkit.Missing(t, "the test needs Lmod, which hack/deps.sh installs: %v", err)
	}
	base, modules := filepath.Join(into, "base"), filepath.Join(into, "modules")
	script := `set -e
mkdir -p "$1/` + version + `" "$2/bee-hpc"
tar -C "$1/` + version + `" --strip-components=1 -xzf "$3"
cp "$4" "$2/bee-hpc/` + version + `.lua"
. ` + lmod + `
module use "$2"
module load bee-hpc
command -v bee && bee version
module unload bee-hpc
! command -v bee`
	c := exec.CommandContext(t.Context(), "bash", "-c", script, "bash", base, modules, archive, filepath.Join(into, "lmod/bee-hpc.lua"))
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + into, "BEE_HPC_BASE=" + base}
	if out := must(t, c); !strings.HasPrefix(out, base+"/"+version+"/bee\nbee version "+version) {
		t.Errorf("with Lmod: %s", out)
	}
	if testkit.Everything() {
		testEasyBuild(t, filepath.Join(into, "easybuild/bee-hpc.eb"), dist)
	}
}

// testEasyBuild installs by EasyBuild itself.
func testEasyBuild(t *testing.T, recipe, dist string) {
	env := filepath.Join(t.TempDir(), "env")
	python := filepath.Join(env, "bin", "python")
	must(t, exec.CommandContext(t.Context(), "python3", "-m", "venv", "--without-pip", env))
	must(t, exec.CommandContext(t.Context(), "python3", "-m", "pip", "--python", python, "install", "-q", "easybuild==5.2.1"))
	top := filepath.Join(t.TempDir(), "easybuild")
	c := exec.CommandContext(t.Context(), "bash", "-c", `. /usr/share/lmod/lmod/init/bash; exec "$0" "$@"`, filepath.Join(env, "bin", "eb"), recipe,
		"--allow-use-as-root-and-accept-consequences", "--prefix", top, "--sourcepath", dist, "--modules-tool", "Lmod", "--module-syntax", "Lua")
	c.Env = []string{"PATH=" + filepath.Join(env, "bin") + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "LMOD_CMD=/usr/share/lmod/lmod/libexec/lmod"}
	must(t, c)
	if out := must(t, exec.CommandContext(t.Context(), filepath.Join(top, "software/bee-hpc", version, "bee"), "version")); !strings.Contains(out, version) {
		t.Errorf("bee version = %q", out)
	}
}
