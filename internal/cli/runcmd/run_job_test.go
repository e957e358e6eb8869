package runcmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/spec"
)

// typedJob is the job of a command line of `bee run`, which runs nothing.
func typedJob(t *testing.T, args ...string) (*spec.Job, error) {
	t.Helper()
	a := recorded(t)
	c := a.RunCommand()
	if err := c.ParseFlags(args); err != nil {
		return nil, err
	}
	from, err := a.jobOf(c, c.Flags().Args())
	if err != nil {
		return nil, err
	}
	return from.draft.Job, nil
}

func TestWhatIsAnImage(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{"job.yaml", "beefile"} {
		if err := os.WriteFile(file, []byte("image: x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for word, want := range map[string]bool{
		"job.yaml": false, "beefile": false, "other.yaml": false, "./other": false, "/nowhere/other": false, "~/other": false, "": false,
		"debian:12": true, "docker.io/lab/cfd:2.1": true, "lab/cfd": true, "oci:./app": true, "docker-archive:/tmp/x.tar": true, "docker://debian": true,
	} {
		if got := isImage(word); got != want {
			t.Errorf("%q is an image: %t, expected %t", word, got, want)
		}
	}
}

func TestTheJobOfAnImage(t *testing.T) {
	j, err := typedJob(t, "-n", "2", "lab/cfd:2.1@sha256:00", "mpirun", "-n", "4", "solver", "--", "-v")
	if err != nil {
		t.Fatal(err)
	}
	if j.Image != "lab/cfd:2.1@sha256:00" || j.Name != "cfd" || !slices.Equal(j.Run.Argv, []string{"mpirun", "-n", "4", "solver", "--", "-v"}) {
		t.Errorf("got %+v, %+v", j, j.Run)
	}
	if j, err = typedJob(t, "docker://debian:12"); err != nil || j.Run != nil || j.Image != "debian:12" || j.Name != "debian" {
		t.Errorf("without a command: %+v, %v", j, err)
	}
	if j, err = typedJob(t, "docker-archive:app.tar.gz"); err != nil || j.Name != "app" || j.Image != "docker-archive:"+filepath.Join(workspace.WorkingDir(), "app.tar.gz") {
		t.Errorf("an archive: %+v, %v", j, err)
	}
}

// TestFlagsAfterABeefile: they stay bee's, and no command follows.
func TestFlagsAfterABeefile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("job.yaml", []byte("image: debian:12\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if j, err := typedJob(t, "job.yaml", "--quiet", "-n", "3"); err != nil || j.Image != "debian:12" {
		t.Errorf("got %+v, %v", j, err)
	}
	if _, err := typedJob(t, "job.yaml", "echo", "hello"); console.CodeOf(err) != console.ExitInvalid || !strings.Contains(err.Error(), "echo hello") {
		t.Errorf("a command after a Beefile: %v", err)
	}
	if _, err := typedJob(t, "job.yaml", "--nosuch"); console.CodeOf(err) != console.ExitInvalid {
		t.Errorf("a flag that is not known: %v", err)
	}
}

func TestFlagsLikeDockers(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("vars", []byte("# comment\nA=1\n\nB=two words\nHOME\nNOSUCHVARIABLE\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", "/home/ann")
	given := func(names ...string) func(string) bool {
		return func(n string) bool { return slices.Contains(names, n) }
	}
	draft := spec.DraftOf("command line", []byte("{image: debian}"), workspace.WorkingDir())
	l := likeDocker{name: "n", workdir: "/w", entrypoint: "", gpus: "all", envFiles: []string{"vars"}, volumes: []string{"/project/x:/data:ro", "./here:/work2", "scratch:/s:rw"}}
	if err := l.change(draft, given("name", "workdir", "entrypoint", "gpus")); err != nil {
		t.Fatal(err)
	}
	j, err := draft.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := []spec.Mount{{From: "/project/x", To: "/data"}, {From: filepath.Join(workspace.WorkingDir(), "here"), To: "/work2", Write: true}, {From: "scratch", To: "/s", Write: true}}
	if !slices.Equal(j.Mounts, want) {
		t.Errorf("mounts %+v", j.Mounts)
	}
	if j.Name != "n" || j.Workdir != "/w" || j.Entrypoint == nil || len(j.Entrypoint.Argv) != 0 || j.GPUs != spec.AllGPUs {
		t.Errorf("got %+v", j)
	}
	if len(j.Env) != 3 || j.Env["A"] != "1" || j.Env["B"] != "two words" || j.Env["HOME"] != "/home/ann" {
		t.Errorf("environment %v", j.Env)
	}
	for _, wrong := range []string{"vars", "/x", "/x:/y:wo", ":/x", "/a:/b:ro:z"} {
		draft := spec.DraftOf("command line", []byte("{image: debian}"), workspace.WorkingDir())
		l := likeDocker{volumes: []string{wrong}}
		if err := l.change(draft, given()); err != nil {
			t.Fatal(err)
		}
		if _, err := draft.Finish(); console.CodeOf(err) != console.ExitInvalid || !strings.Contains(err.Error(), "--volume") {
			t.Errorf("-v %s: %v", wrong, err)
		}
	}
}
