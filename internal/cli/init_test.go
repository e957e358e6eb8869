package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// newProject is a directory with files, in which the test runs, and a home of its own.
func newProject(t *testing.T, files map[string]string) *desk {
	t.Helper()
	d := newDesk(t)
	dir := filepath.Join(d.dir, "project")
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("XDG_DATA_HOME", filepath.Join(d.dir, "data home"))
	return d
}

func TestInit(t *testing.T) {
	d := newProject(t, map[string]string{"in.melt": "units lj\n", "pi.py": "from mpi4py import MPI\n"})
	if err := d.bee("init"); err != nil {
		t.Fatal(err)
	}
	job, err := spec.LoadJob("job.yaml")
	if err != nil || job.Name != "project" || job.Run.Shell != "mpirun lmp -in in.melt\n" {
		t.Errorf("got %+v, %v", job, err)
	}
	for _, named := range []string{"in.melt", "pi.py", "`bee run job.yaml`"} { // what was found, what was not taken, and what comes next
		if printed := d.err.String(); !strings.Contains(printed, named) {
			t.Errorf("it names no %s: %s", named, printed)
		}
	}
	raw, err := os.ReadFile("job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	schema, is := strings.CutPrefix(line, "# yaml-language-server: $schema=file://")
	if !is || strings.Contains(schema, " ") {
		t.Fatalf("the first line is %q", line)
	}
	if text, err := os.ReadFile(strings.ReplaceAll(schema, "%20", " ")); err != nil || !strings.Contains(string(text), `"ranks_per_node"`) {
		t.Errorf("no schema: %v", err)
	}
	if err := d.bee("check", "job.yaml"); err != nil {
		t.Errorf("its own check finds %v", err)
	}
	if err := d.bee("init"); console.CodeOf(err) != console.ExitInvalid || !strings.Contains(core.Remedy(err), "--output") {
		t.Errorf("a second time: %v", err)
	}
	if again, err := os.ReadFile("job.yaml"); err != nil || string(again) != string(raw) {
		t.Errorf("it was changed: %v", err)
	}
	if err := d.bee("init", "-o", "other.yaml"); err != nil {
		t.Errorf("another name: %v", err)
	}
}

// TestInitWithoutADataDirectory writes the Beefile all the same.
func TestInitWithoutADataDirectory(t *testing.T) {
	d := newProject(t, map[string]string{"taken": ""})
	t.Setenv("XDG_DATA_HOME", filepath.Join(workspace.WorkingDir(), "taken"))
	if err := d.bee("init"); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile("job.yaml"); err != nil || strings.Contains(string(raw), "$schema") {
		t.Errorf("%v, %s", err, raw)
	}
}

func TestInitFrom(t *testing.T) {
	def := "Bootstrap: docker\nFrom: debian:12\n%post\n  true\n%runscript\n  hostname\n"
	d := newProject(t, map[string]string{"run.sbatch": "#!/bin/sh\n#SBATCH -N 2\n#SBATCH --array=1-3\nmpirun ./app x.cfg\n", "x.cfg": "", "app": "", "app.def": def, "notes.txt": "nothing\n", "sub/link.py": ""})
	if err := d.bee("init", "--from", "run.sbatch"); err != nil {
		t.Fatal(err)
	}
	job, err := spec.LoadJob("job.yaml")
	if err != nil || job.Nodes != 2 || len(job.Inputs) != 2 {
		t.Errorf("got %+v, %v", job, err)
	}
	if printed := d.err.String(); !strings.Contains(printed, "--array 1-3") {
		t.Errorf("it prints %s", printed)
	}
	if err := d.bee("init", "--from", "docker run --rm -e A=1 lab/cfd:2 cfd -n 4", "-o", "docker.yaml"); err != nil {
		t.Fatal(err)
	}
	if job, err := spec.LoadJob("docker.yaml"); err != nil || job.Image != "lab/cfd:2" || strings.Join(job.Run.Argv, " ") != "cfd -n 4" || job.Env["A"] != "1" {
		t.Errorf("got %+v, %v", job, err)
	}
	if err := d.bee("init", "--from", "app.def", "-o", "def.yaml"); err != nil {
		t.Fatal(err)
	}
	if job, err := spec.LoadJob("def.yaml"); err != nil || job.Build.Dockerfile != "app.Dockerfile" || !workspace.There("app.Dockerfile") || !workspace.There("app.post.sh") {
		t.Errorf("got %+v, %v", job, err)
	}
	// Files beside it are not overwritten either, and nothing else is written then.
	if err := d.bee("init", "--from", "app.def", "-o", "again.yaml"); console.CodeOf(err) != console.ExitInvalid || workspace.There("again.yaml") {
		t.Errorf("over its own Dockerfile: %v", err)
	}
	for _, wrong := range []string{"nosuch", "notes.txt", "job.yaml", "."} {
		if err := d.bee("init", "--from", wrong, "-o", "wrong.yaml"); err == nil || workspace.There("wrong.yaml") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
