package e2e

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

func TestExecEntersARunningContainer(t *testing.T) {
	b, job := busyboxJob(t, "nodes: 2", "run: 'touch /tmp/mark; echo ready; sleep 100'")
	id := strings.TrimSpace(b.Must("--sites", labSites(b, "2"), "run", "-d", job))
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.Must("logs", id) != "ready\n" {
			return os.ErrNotExist
		}
		return nil
	})
	if out := b.Must("exec", id, "--", "ls", "/tmp/mark"); out != "/tmp/mark\n" {
		t.Errorf("exec gave %q", out)
	}
	if r := b.Try("exec", "--node", "1", id, "--", "sh", "-c", "hostname; ls /tmp/mark; exit 4"); r.Code != 4 || !strings.HasPrefix(r.Stdout, "lab-1\n") {
		t.Errorf("exec on node 1 gave %+v", r)
	}
	b.Must("stop", id)
}

// TestExecWithATerminal has script(1) make the terminal that people have.
func TestExecWithATerminal(t *testing.T) {
	script := testkit.RequireTool(t, "script")
	b := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{})
	id := strings.TrimSpace(b.Must("run", "--detach", b.File("job.yaml", "image: docker-archive:"+image+"\nrun: sleep 1000\n")))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "true"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	c := b.Command("exec", "-t", id, "--", "sh", "-c", `test -t 0 && test -t 1 && echo "a terminal, $TERM"; read line; echo "got $line"; exit 7`)
	line := "stty rows 33 cols 99; " + strings.Join(quoted(c.Args), " ")
	typed := exec.Command(script, "-q", "-e", "-c", line, "/dev/null")
	typed.Env, typed.Dir = append(c.Env, "TERM=vt100"), c.Dir
	typed.Stdin = strings.NewReader("hello\n")
	out, err := typed.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 7 || !strings.Contains(string(out), "a terminal, vt100") || !strings.Contains(string(out), "got hello") {
		t.Errorf("%v: %q", err, out)
	}
	if f := b.Fail("exec", "-t", id, "--", "true"); f.Kind != "invalid" || !strings.Contains(f.Remedy, " -t") {
		t.Errorf("-t without a terminal: %+v", f)
	}
	b.Must("stop", id)
}

func quoted(words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return out
}
