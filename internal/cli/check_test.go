package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhoForgetsOutputsIsWarned(t *testing.T) {
	t.Setenv("BEE_SITES", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	file := filepath.Join(t.TempDir(), "job.yaml")
	for text, warns := range map[string]bool{
		"run: hostname": false,
		"workdir: /work\nrun: ./compute > result":                                              true,
		"checkpoint: {paths: [/work/a]}\nrun: ./compute\noutputs: [{from: /work/a, to: .}]":    false,
		"checkpoint: {}\nrun: ./compute":                                                       true,
		"workdir: /work\nrun: ./compute > result\noutputs: [{from: /work/result, to: ./home}]": false,
	} {
		if err := os.WriteFile(file, []byte("image: docker.io/library/debian:12\n"+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, printed bytes.Buffer
		root := newApp(&out, &printed).newRoot()
		root.SetArgs([]string{"check", file})
		if err := root.Execute(); err != nil || strings.Contains(printed.String(), "`outputs:`") != warns {
			t.Errorf("%s: %v, %q", text, err, printed.String())
		}
	}
}
