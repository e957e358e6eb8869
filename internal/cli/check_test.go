package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
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
		var out bytes.Buffer
		root := newApp(&out, &out).newRoot()
		root.SetArgs([]string{"check", "--json", file})
		var got struct{ Warnings []string }
		if err := root.Execute(); err != nil || json.Unmarshal(out.Bytes(), &got) != nil || (len(got.Warnings) > 0) != warns {
			t.Errorf("%s: %v, %s", text, err, out.String())
		}
	}
}
