package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
)

// TestCheckReadsStandardInput as bee run does.
func TestCheckReadsStandardInput(t *testing.T) {
	t.Setenv("BEE_SITES", "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	for text, valid := range map[string]bool{"image: docker.io/library/debian:12\nrun: hostname\n": true, "image: x\nnode: 2\n": false} {
		file := filepath.Join(t.TempDir(), "job.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		os.Stdin = f
		var out bytes.Buffer
		root := newApp(&out, &out).newRoot()
		root.SetArgs([]string{"check", "-"})
		_, refused := errors.AsType[*spec.Errors](root.Execute())
		if refused == valid || (out.Len() > 0) != valid {
			t.Errorf("%q: refused %v, printed %q", text, refused, out.String())
		}
	}
}

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
