package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestWhatIsNotHereIsToldAtOnce, before anything of a run begins.
func TestWhatIsNotHereIsToldAtOnce(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"there", "part-1", "image:1.tar", "build/x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BEE_TEST_SET", "")
	var found testkit.ErrorList
	check := func(text string, good bool) {
		t.Helper()
		d := parseDraft("job.yaml", []byte(text), dir)
		d.CheckHere()
		_, err := d.Finish()
		if good != (err == nil) || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil {
			found.Add(text, err)
		}
	}
	for _, good := range []string{
		"image: docker-archive:image:1.tar:name:tag\ninputs: [{from: there, to: /in/}, {from: part-*, to: /in/}]\nsecrets: {A: {env: BEE_TEST_SET}, B: {file: there}, C: {exec: 'false'}}\n",
		"build: {context: build, dockerfile: x}\n",
	} {
		check(good, true)
	}
	for _, bad := range []string{
		"image: docker-archive:none.tar\nnodes: 0\ninputs:\n- {from: none, to: /in/}\n- {from: none-*, to: /in/}\n- {from: dangling, to: /in/}\nsecrets:\n  A: {env: BEE_TEST_UNSET}\n  B: {file: none}\n",
		"image: a\nvm: true\nvolume: {kind: dataimage, from: none}\n",
		"image: oci:none:1\n",
		"build: none\n",
		"build: build\n",
		"build: {context: build, dockerfile: y}\n",
		"build:\n  debian: bookworm\n  copy: [{from: none, to: /a}, {from: there, to: /b}, {from: 7}]\n",
		"image: a\noutputs: [{from: /work/a, to: new/er}, {from: /work/b, to: .}, {from: /work/c, to: there}, {from: /work/d, to: there/in}]\n",
		"image: [x]\ninputs: [{from: [x], to: /a}]\nsecrets: {A: {env: [x], file: [y]}}\n",
		"- a\n",
	} {
		check(bad, false)
	}
	testkit.Golden(t, "here", strings.ReplaceAll(found.String(), dir, "DIR"))
}

func TestNamesOfOtherTools(t *testing.T) {
	for ref, want := range map[string]string{
		"docker://debian:12":               "debian:12",
		"docker://ghcr.io/a/b@sha256:0123": "ghcr.io/a/b@sha256:0123",
		"oci:x":                            "oci:/d/x",
		"sif:x/app":                        "sif:/d/x/app",
		"../app.sif":                       "sif:/app.sif",
		"app.sif":                          "sif:/d/app.sif",
		"sif.example.org/a.sif:1":          "sif.example.org/a.sif:1",
	} {
		if got := ImageFrom("/d", ref); got != want {
			t.Errorf("%s is %s", ref, got)
		}
		if err := CheckForeign(ref); err != nil {
			t.Error(err)
		}
	}
	for _, f := range foreign {
		ref := f.prefix + "x" + f.suffix
		if err := CheckForeign(ref); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%s: %v (%s)", ref, err, core.Remedy(err))
		}
	}
}
