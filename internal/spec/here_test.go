package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestWhatIsNotHereIsToldAtOnce: nothing of a run is worth beginning before.
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
	for _, c := range []struct {
		text string
		says []string
	}{
		{"image: docker-archive:image:1.tar:name:tag\ninputs: [{from: there, to: /in/}, {from: part-*, to: /in/}]\nsecrets: {A: {env: BEE_TEST_SET}, B: {file: there}, C: {exec: 'false'}}\n", nil},
		{
			"image: docker-archive:none.tar\nnodes: 0\ninputs:\n- {from: none, to: /in/}\n- {from: none-*, to: /in/}\n- {from: dangling, to: /in/}\nsecrets:\n  A: {env: BEE_TEST_UNSET}\n  B: {file: none}\n",
			[]string{
				"1:8: image: " + dir + "/none.tar: no such", "2:8: nodes: 0", "4:10: inputs[0].from: " + dir + "/none: no such", "5:10: inputs[1].from: ", "6:10: inputs[2].from: ",
				"8:12: secrets.A.env: the variable BEE_TEST_UNSET is not set", "9:13: secrets.B.file: ",
			},
		},
		{"image: a\nvm: true\nvolume: {kind: dataimage, from: none}\n", []string{"3:33: volume.from: " + dir + "/none: no such"}},
		{"image: oci:none:1\n", []string{"1:8: image: " + dir + "/none:1: no such"}},
		{"build: none\n", []string{"1:8: build: " + dir + "/none: no such"}},
		{"build: build\n", []string{"1:8: build: " + dir + "/build/Dockerfile: no such"}},
		{"build: {context: build, dockerfile: x}\n", nil},
		{"build: {context: build, dockerfile: y}\n", []string{"1:37: build.dockerfile: " + dir + "/build/y: no such"}},
		{"build:\n  debian: bookworm\n  copy: [{from: none, to: /a}, {from: there, to: /b}, {from: 7}]\n", []string{"3:17: build.copy[0].from: " + dir + "/none: no such", "build.copy[2]: both", "build.copy[2].from: " + dir + "/7"}},
		{
			"image: a\noutputs: [{from: /work/a, to: new/er}, {from: /work/b, to: .}, {from: /work/c, to: there}, {from: /work/d, to: there/in}]\n",
			[]string{"outputs[2].to: " + dir + "/there: not a directory", "outputs[3].to: " + dir + "/there/in: not a directory"},
		},
		{"image: [x]\ninputs: [{from: [x], to: /a}]\nsecrets: {A: {env: [x], file: [y]}}\n", []string{"image: text", "inputs[0].from: text", "env: text", "file: text"}},
		{"- a\n", []string{"a mapping of keys is wanted"}},
	} {
		d := parseDraft("job.yaml", []byte(c.text), dir)
		d.CheckHere()
		_, err := d.Finish()
		var lines []string
		if err != nil {
			for _, l := range strings.Split(err.Error(), "\n") {
				if !strings.HasPrefix(l, " ") {
					lines = append(lines, l)
				}
			}
		}
		if len(lines) != len(c.says) {
			t.Errorf("%s: got\n%v", c.text, err)
			continue
		}
		for i, want := range c.says {
			if !strings.Contains(lines[i], want) {
				t.Errorf("got %s, want %s", lines[i], want)
			}
		}
	}
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
