package hostile

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestAnyCaller: a job runs whatever the process is like that calls bee.
func TestAnyCaller(t *testing.T) {
	b, job := busyboxJob(t, "run: 'echo ok; echo x > /work/f'", "outputs: [{from: /work/f, to: ./out}]")
	for name, how := range map[string]string{
		"umask 077":            "umask 077; exec %",
		"umask 0":              "umask 0; exec %",
		"umask 777":            "umask 777; exec %",
		"TMPDIR not there":     "TMPDIR=/no/such exec %",
		"no PATH":              "unset PATH; exec %",
		"no HOME":              "unset HOME; exec %",
		"stdin closed":         "exec % <&-",
		"stderr closed":        "exec % 2>&-",
		"few descriptors":      "ulimit -n 64; exec %",
		"little memory":        "ulimit -v 4000000; exec %",
		"stacks without end":   "ulimit -s unlimited; exec %",
		"signals are ignored":  "trap '' INT TERM HUP PIPE; exec %",
		"a strange language":   "LANG=xx_YY.foo LC_ALL=C exec %",
		"a directory gone":     "mkdir g; cd g; rmdir ../g; exec %",
		"niced":                "exec nice -n 19 %",
		"a session of its own": "exec setsid -w %",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(b.Work + "/out"); err != nil {
				t.Fatal(err)
			}
			c := b.Command("run", "-q", job)
			line := strings.Replace(how, "%", `"$0" "$@"`, 1)
			shell := exec.Command("sh", append([]string{"-c", line}, c.Args...)...)
			shell.Env, shell.Dir = c.Env, c.Dir
			out, err := shell.Output()
			if err != nil || string(out) != "ok\n" {
				t.Errorf("%v: %q", err, out)
			}
			if got := b.Read("out/f"); got != "x\n" {
				t.Errorf("the output is %q", got)
			}
		})
	}
}

// TestAnImageIsRunAsDockerRunsIt: what its configuration says and no layer has.
func TestAnImageIsRunAsDockerRunsIt(t *testing.T) {
	b := testkit.NewBee(t)
	image := testkit.Busybox(t, unusualConfig())
	job := b.File("job.yaml", "name: odd\nimage: docker-archive:"+image+"\n")
	if got := b.Must("run", "-q", job); got != "/no/such\n/data\n" {
		t.Errorf("its command printed %q", got)
	}
	blank := b.File("blank.yaml", "name: odd\nimage: docker-archive:"+image+"\nentrypoint: \"\"\nrun: [echo, mine]\n")
	if got := b.Must("run", "-q", blank); got != "mine\n" {
		t.Errorf("without an entrypoint: %q", got)
	}
	waits := b.File("waits.yaml", "name: odd\nimage: docker-archive:"+image+"\nrun: \"trap 'echo got QUIT; exit 0' QUIT; trap 'echo got TERM' TERM; echo > /work/up; while :; do sleep 0.1; done\"\n")
	id := strings.TrimSpace(b.Must("run", "-d", waits))
	awaitFile(t, b, id, "/work/up")
	b.Must("stop", id)
	if got := b.Must("logs", id); !strings.Contains(got, "got QUIT") || strings.Contains(got, "got TERM") {
		t.Errorf("STOPSIGNAL: %q", got)
	}
}

func unusualConfig() v1.Config {
	return v1.Config{
		Env: []string{"PATH=/none", "PATH=/bin"}, Entrypoint: []string{""}, Cmd: []string{"sh", "-c", "pwd; cd /data && echo x > file && pwd"}, WorkingDir: "/no/such",
		Volumes: map[string]struct{}{"/data": {}}, StopSignal: "SIGQUIT", User: "app:0", Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "false"}},
		ExposedPorts: map[string]struct{}{"80/tcp": {}}, OnBuild: []string{"RUN false"}, Labels: map[string]string{"a": "b"},
	}
}

// awaitFile waits for a file in a run's container.
func awaitFile(t *testing.T, b *testkit.Bee, id, path string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", path); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
}
