package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestRunAnImage runs images without a Beefile, with the flags that docker has.
func TestRunAnImage(t *testing.T) {
	bee := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}, Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{"echo the-image-itself"}})
	data := filepath.Dir(bee.File("data/in", "from the site\n"))
	vars := bee.File("vars", "A=1\n# no variable\nB=two words\n")
	for _, c := range []struct {
		name string
		args []string
		says string
		code int
	}{
		{"its own command", []string{"run", "-q", image}, "the-image-itself\n", 0},
		{"a command", []string{"run", "-q", "--entrypoint", "", image, "echo", "-e", "--", "x"}, "-- x\n", 0},
		{"its exit code", []string{"run", "-q", image, "exit 7"}, "", 7},
		{"variables and a directory", []string{"run", "-q", "--rm", "-e", "A=2", "--env-file", vars, "-w", "/tmp", image, `echo "$A $B $PWD"`}, "2 two words /tmp\n", 0},
		{"a mount to read", []string{"run", "-q", "-v", data + ":/data:ro", image, "cat /data/in; echo x > /data/out || exit 3"}, "from the site\n", 3},
		{"a mount to write", []string{"run", "-q", "-v", data + ":/data", image, "echo made > /data/out"}, "", 0},
		{"several nodes", []string{"run", "-q", "-n", "1", "--name", "named", image, "echo $BEE_NUM_NODES"}, "1\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := bee.Try(c.args...); got.Code != c.code || got.Stdout != c.says {
				t.Errorf("%d, %q; expected %d, %q\n%s", got.Code, got.Stdout, c.code, c.says, got.Stderr)
			}
		})
	}
	launch := bee.File("launch.yaml", "image: "+image+"\nentrypoint: []\nrun: mpirun -n 2 ./solver\n")
	if got := bee.Try("plan", "--json", launch); got.Code != 201 || !strings.Contains(got.Stderr, "no mpirun") || !strings.Contains(got.Stdout, `"usable": true`) {
		t.Errorf("the plan of a job whose image lacks mpirun: %+v", got)
	}
	if got := bee.Try("check", launch); got.Code != 0 || !strings.Contains(got.Stderr, "no mpirun") {
		t.Errorf("the check of that job: %+v", got)
	}
	mounted := bee.File("mounted.yaml", "image: "+image+"\nentrypoint: []\nrun: mpirun -n 2 ./solver\nmounts: [{from: /, to: /opt/mpi}]\nenv: {PATH: '/opt/mpi/bin:/bin'}\n")
	if got := bee.Try("plan", mounted); got.Code != 0 || strings.Contains(got.Stderr, "mpirun") {
		t.Errorf("the plan of a job that mounts an MPI: %+v", got)
	}
	if got := bee.Read("data/out"); got != "made\n" {
		t.Errorf("the job wrote %q", got)
	}
	if list := bee.Must("ps", "-a"); !strings.Contains(list, "named") {
		t.Errorf("the name is lost:\n%s", list)
	}
}

// TestRunFromStandardInput: what comes through a pipe may be another user's.
func TestRunFromStandardInput(t *testing.T) {
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	run := func(text string, args ...string) (string, error) {
		c := bee.Command(append([]string{"run", "-q", "-"}, args...)...)
		c.Stdin, c.Dir = strings.NewReader(text), filepath.Dir(image)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	job := "image: docker-archive:" + filepath.Base(image) + "\nrun: echo piped\n"
	if out, err := run(job); err != nil || out != "piped\n" {
		t.Errorf("%q, %v", out, err)
	}
	outside := job + "secrets: {TOKEN: {exec: echo stolen}}\n"
	if out, err := run(outside); err == nil || strings.Contains(out, "piped\n") {
		t.Errorf("a command of a piped Beefile runs unasked: %q", out)
	}
	if out, err := run(outside, "--trust"); err != nil || !strings.HasSuffix(out, "piped\n") {
		t.Errorf("with --trust: %q, %v", out, err)
	}
	if out, err := run(strings.Repeat("#", 2<<20)); err == nil || !strings.Contains(out, "standard input") {
		t.Errorf("two megabytes: %q", out)
	}
}
