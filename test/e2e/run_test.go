// Package e2e holds the end-to-end tests: the real bee, real containers, real
// MPI. They read like the README, and run as root and as an ordinary user.
package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// busyboxJob is a bee with a small image, and a Beefile of it.
func busyboxJob(t *testing.T, lines ...string) (*testkit.Bee, string) {
	t.Helper()
	b := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin", "FROM_IMAGE=yes"}})
	job := "name: small\nimage: docker-archive:" + image + "\n" + strings.Join(lines, "\n") + "\n"
	return b, b.File("job.yaml", job)
}

func labSites(b *testkit.Bee, hosts string) string {
	return b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: "+hosts+"}\n")
}

func TestRunShowsOutputAndBringsResultsHome(t *testing.T) {
	testkit.AsRootToo(t)
	b, job := busyboxJob(t,
		"inputs: [{from: ./input, to: /work}]",
		"workdir: /work",
		"env: {GREETING: hello}",
		"setup: tr a-z A-Z <in.txt >mid.txt",
		`run: 'echo "$GREETING $FROM_IMAGE"; echo oops >&2; cat mid.txt in.txt >out.txt; id -u'`,
		"outputs: [{from: '/work/*.txt', to: ./results}]")
	b.File("input/in.txt", "data\n")
	r := b.Try("run", "-q", job)
	uid := strings.TrimSpace(r.Stdout[strings.LastIndex(strings.TrimSpace(r.Stdout), "\n")+1:])
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, "hello yes\n") || r.Stderr != "oops\n" {
		t.Fatalf("got %+v", r)
	}
	if want := itoa(os.Getuid()); uid != want {
		t.Errorf("uid inside is %s, want the caller's %s", uid, want)
	}
	if got := b.Read("results/out.txt"); got != "DATA\ndata\n" {
		t.Errorf("out.txt holds %q", got)
	}
	info, err := os.Stat(filepath.Join(b.Work, "results/out.txt"))
	if err != nil || int(sysOf(info).Uid) != os.Getuid() {
		t.Errorf("the result does not belong to the caller: %v", err)
	}
}

func TestExitCodeIsTheTasks(t *testing.T) {
	for _, c := range []struct {
		name, run string
		want      int
		says      string
	}{
		{"success", "true", 0, "succeeded"},
		{"failure", "exit 7", 7, "exit code 7\n"},
		{"high code", "exit 250", 250, "exit code 250\n"},
		{"not found", "[no-such-program]", 127, "no-such-program: not found"},
		{"no shell", "echo\nsetup: [rm, /bin/sh]", 127, " /bin/sh, "},
		{"signal", "kill -SEGV $$", 139, "segmentation fault"},
		{"killed", "kill -9 $$", 137, "memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, job := busyboxJob(t, "run: "+c.run)
			if r := b.Try("run", job); r.Code != c.want || !strings.Contains(r.Stderr, c.says) {
				t.Errorf("ended with %d, want %d and %q\n%s", r.Code, c.want, c.says, r.Stderr)
			}
		})
	}
}

func TestFailedSetupEndsTheRunWithItsCode(t *testing.T) {
	b, job := busyboxJob(t, "setup: exit 9", "run: 'echo never'")
	r := b.Try("run", job)
	if r.Code != 9 || strings.Contains(r.Stdout, "never") || !strings.Contains(r.Stderr, "setup") {
		t.Errorf("got %+v", r)
	}
}

func TestWrongBeefileStartsNothing(t *testing.T) {
	b, job := busyboxJob(t, "nodez: 2", "run: true")
	r := b.Try("run", job)
	if r.Code != 201 || !strings.Contains(r.Stderr, "job.yaml:3:1") || !strings.Contains(r.Stderr, "nodes") {
		t.Errorf("got %+v", r)
	}
	if out := b.Must("ps", "-aq"); out != "" {
		t.Errorf("a run was recorded: %q", out)
	}
}

// TestAHeadThatCannotStartSaysWhy: its log is on the submitting machine, although the host is given
// back.
func TestAHeadThatCannotStartSaysWhy(t *testing.T) {
	b, job := busyboxJob(t, "nodes: 2", "network: eth77", "run: 'true'")
	r := b.Try("--sites", labSites(b, "2"), "run", job)
	if r.Code != 204 || !strings.Contains(r.Stderr, " site lab: ") || !strings.Contains(r.Stderr, " eth77: ") || !strings.Contains(r.Stderr, "`network:`") {
		t.Errorf("%d: %s", r.Code, r.Stderr)
	}
	if got := b.Must("logs", "--node", "0", "small"); !strings.Contains(got, "eth77") {
		t.Errorf("its log is %q", got)
	}
}
