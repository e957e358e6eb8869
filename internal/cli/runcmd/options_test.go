package runcmd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/spec"
)

// written is a Beefile of a text.
func written(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestFlagsReplaceWhatTheBeefileSays(t *testing.T) {
	t.Setenv("BEE_TEST_CALLER", "mine")
	draft, err := spec.ReadDraft(written(t, "build: .\nnodes: 0\nenv: {A: x, B: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	given := []string{"nodes", "image", "env"}
	flags := runOptions{
		nodes: 3, image: "b", pull: "missing", env: []string{"A=y", "BEE_TEST_CALLER", "BEE_TEST_UNSET", "B"},
		given: func(flag string) bool { return slices.Contains(given, flag) },
	}
	if err := flags.change(draft); err != nil {
		t.Fatal(err)
	}
	job, err := draft.Finish()
	if err != nil {
		t.Fatal(err)
	}
	_, unset := job.Env["BEE_TEST_UNSET"]
	if job.Nodes != 3 || job.Image != "b" || job.Build != nil || job.Env["A"] != "y" || job.Env["B"] != "1" || job.Env["BEE_TEST_CALLER"] != "mine" || unset {
		t.Errorf("got %+v", job)
	}
}

func TestPathsOfFlagsStartHere(t *testing.T) {
	t.Chdir(t.TempDir())
	draft, err := spec.ReadDraft(written(t, "image: a\n"))
	if err != nil {
		t.Fatal(err)
	}
	flags := runOptions{image: "oci:./app:1", pull: "missing", given: func(flag string) bool { return flag == "image" }}
	if err := flags.change(draft); err != nil {
		t.Fatal(err)
	}
	if want := "oci:" + filepath.Join(workspace.WorkingDir(), "app:1"); draft.Job.Image != want {
		t.Errorf("got %s, want %s", draft.Job.Image, want)
	}
}
