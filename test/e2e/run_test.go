// Package e2e holds the end-to-end tests: the real bee, real containers, real
// MPI. They read like the README, and run as root and as an ordinary user.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
		{"no shell", "echo\nsetup: [rm, /bin/sh]", 127, "write this one as a list"},
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

func TestDetachedRunIsFoundAgain(t *testing.T) {
	b, job := busyboxJob(t, "run: 'echo first; sleep 1; echo last'", "outputs: [{from: /work/no-such-*, to: ./results, optional: true}]")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	if out := b.Must("logs", "-f", id); out != "first\nlast\n" {
		t.Errorf("logs -f gave %q", out)
	}
	v := b.Await(id, 20*time.Second)
	if v.State != "succeeded" || *v.ExitCode != 0 || len(v.Attempts) != 1 || v.Attempts[0].Phases["run"] < 0.9 {
		t.Errorf("got %+v", v)
	}
	if out := b.Must("logs", "small"); out != "first\nlast\n" {
		t.Errorf("logs by name, afterwards, gave %q", out)
	}
	if out := b.Must("rm", id); strings.TrimSpace(out) != id {
		t.Errorf("rm gave %q", out)
	}
	if r := b.Try("show", id); r.Code != 202 {
		t.Errorf("show of a removed run: %+v", r)
	}
}

// TestTwoRunsOfOneName: none is ended or forgotten by guessing which is meant.
func TestTwoRunsOfOneName(t *testing.T) {
	b, job := busyboxJob(t, "run: 'sleep 1000'")
	first, second := strings.TrimSpace(b.Must("run", "-d", job)), strings.TrimSpace(b.Must("run", "-d", job))
	for _, args := range [][]string{{"stop", "small"}, {"rm", "-f", "small"}, {"checkpoint", "small"}, {"stop", ""}, {"stop", "--all", first}} {
		if r := b.Try(args...); r.Code != 201 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if out := b.Must("ps", "-q"); len(strings.Fields(out)) != 2 {
		t.Errorf("live runs: %q", out)
	}
	b.Must("stop", second)
	if r := b.Try("stop", "small"); r.Code != 0 || !strings.Contains(r.Stderr, first+": stopped") { // not the newer one, which is over
		t.Errorf("stop by name: %+v", r)
	}
	third := strings.TrimSpace(b.Must("run", "-d", job))
	if out := b.Must("rm", "-f", third, first); out != first+"\n"+third+"\n" {
		t.Errorf("rm -f gave %q", out)
	}
	if out := strings.TrimSpace(b.Must("ps", "-aq")); out != second {
		t.Errorf("there are %q, want %s", out, second)
	}
}

// TestBackgroundRunsHoldNoFilesOfTheirCaller: a script may hold a lock by a
// file that all its children inherit.
func TestBackgroundRunsHoldNoFilesOfTheirCaller(t *testing.T) {
	b, job := busyboxJob(t, "run: 'echo up; sleep 100'")
	sites := b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 1}]\n")
	lock := b.File("lock", "")
	f, err := os.Open(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	c := b.Command("--sites", sites, "run", "-d", job)
	c.ExtraFiles = []*os.File{f}
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.Must("logs", id) != "up\n" {
			return os.ErrNotExist
		}
		return nil
	})
	f.Close() // the lock is free unless another user holds the file
	if f, err = os.Open(lock); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Errorf("while the run goes on, its caller's lock is held: %v", err)
	}
	b.Must("stop", id)
}

func TestStopEndsARunCleanlyAndKeepsItsOutputs(t *testing.T) {
	b, job := busyboxJob(t, "run: 'trap \"echo stopped >/work/state; exit 3\" TERM; echo up >/work/state; echo ready; sleep 100 & wait'",
		"outputs: [{from: /work/state, to: ./results}]")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.Must("logs", id) != "ready\n" {
			return os.ErrNotExist
		}
		return nil
	})
	b.Must("stop", id)
	if v := b.Await(id, 10*time.Second); v.State != "stopped" {
		t.Errorf("got %+v", v)
	}
	if got := b.Read("results/state"); got != "stopped\n" {
		t.Errorf("the output holds %q", got)
	}
}

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

// TestSeccomp compares with the same job without it.
func TestSeccomp(t *testing.T) {
	testkit.AsRootToo(t)
	for filter, want := range map[string]string{"false": "may\n", "true": "may not\n"} {
		b, job := busyboxJob(t, "runtime: rootless", "seccomp: "+filter, "run: busybox unshare -U true && echo may || echo may not")
		if got := b.Must("run", "-q", job); got != want {
			t.Errorf("seccomp %s: %q, want %q", filter, got, want)
		}
	}
	b, job := busyboxJob(t, "seccomp: true", "runtime: rootless", `run: '/.bee/bee version >/dev/null && echo x | cat > f && sleep 0.1 & wait; ! chroot / true; ! mount -t tmpfs none /tmp; echo fine'`, "workdir: /work")
	if got := b.Must("run", "-q", job); got != "fine\n" {
		t.Errorf("an ordinary job: %q", got)
	}
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
	if r := b.Try("exec", "-t", id, "--", "true"); r.Code == 0 || !strings.Contains(r.Stderr, "Leave out -t") {
		t.Errorf("-t without a terminal: %+v", r)
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

func TestOutputThatCannotBeShownIsTold(t *testing.T) {
	for name, want := range map[string]int{"true": 200, "exit 3": 3} {
		b, job := busyboxJob(t, "run: echo hello; "+name)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		var printed strings.Builder
		c := b.Command("run", "-q", job)
		c.Stdout, c.Stderr = full, &printed
		c.Run() //nolint:errcheck // its code is looked at
		if code := c.ProcessState.ExitCode(); code != want || !strings.Contains(printed.String(), "no space left on device") || !strings.Contains(printed.String(), "bee logs") {
			t.Errorf("%s: code %d, want %d: %s", name, code, want, printed.String())
		}
	}
}

// TestRootInsideHasItsName also where the image has no list of users.
func TestRootInsideHasItsName(t *testing.T) {
	testkit.AsRootToo(t)
	b, job := busyboxJob(t, "user: root", "runtime: rootless", "run: id -un; id -gn")
	if got := b.Must("run", "-q", job); got != "root\nroot\n" {
		t.Errorf("it is called %q", got)
	}
}

// TestShowTellsOfARunThatGoesOn: what has started its containers, and how long that took.
func TestShowTellsOfARunThatGoesOn(t *testing.T) {
	b, job := busyboxJob(t, "setup: 'true'", "run: sleep 1000")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		var r testkit.RunView
		b.JSON(&r, "show", "--json", id)
		if len(r.Attempts) != 1 || r.State != "running" {
			return errors.New("it does not run yet")
		}
		a := r.Attempts[0]
		for _, phase := range []string{"launch", "start", "setup"} {
			if _, reported := a.Phases[phase]; !reported || a.Runtime != "rootless" {
				return fmt.Errorf("runtime %q, phases %v", a.Runtime, a.Phases)
			}
		}
		return nil
	})
	b.Must("stop", id)
}

func TestSecretsReachTheTaskAndNoFile(t *testing.T) {
	b, job := busyboxJob(t, "secrets: {TOKEN: {env: MY_TOKEN}}", `run: 'echo "$TOKEN" | tr 0-9a-z 1-9a-z0 | grep -q t4ds4u.wbmvf && echo ok; sleep 1'`)
	b.Env = append(b.Env, "MY_TOKEN=s3cr3t-value")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.Must("logs", id) != "ok\n" {
			return os.ErrNotExist
		}
		return nil
	})
	filepath.Walk(b.Dir, func(p string, info os.FileInfo, err error) error { //nolint:errcheck // what cannot be read does not report it
		if err == nil && info.Mode().IsRegular() && info.Size() < 1<<24 {
			if raw, err := os.ReadFile(p); err == nil && strings.Contains(string(raw), "s3cr3t-value") {
				t.Errorf("the secret stands in %s", p)
			}
		}
		return nil
	})
	b.Await(id, 20*time.Second)
}

// counter is a job that writes its checkpoint when it is asked to end.
const counter = `|
  n=$(cat state 2>/dev/null || echo 0); echo "from $n" >> log
  trap 'echo $n > state.new; mv state.new state; exit 85' TERM
  while [ $n -lt 60 ]; do n=$((n+1)); sleep 0.25; done
  echo $n > done`

// TestARunMovesFromSlotToSlot: no slot is long enough for the job.
func TestARunMovesFromSlotToSlot(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "inputs: [{from: input, to: /work/}]", "checkpoint: {grace: 3s, paths: [/work/state]}", "setup: echo once >> log",
		"outputs: [{from: /work/*, to: results}]", "run: "+counter)
	b.File("input", "given\n")
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, slot: 19s}\n  - {name: two, provider: local, hosts: 2, slot: 19s}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) < 2 || v.Attempts[0].Site != "one" || v.Attempts[1].Site != "two" {
		t.Fatalf("the run: %+v", v)
	}
	text := b.Must("show", id)
	for _, want := range []string{"19.0s; the job is asked for its checkpoint 13.0s before its end (`grace` of 3s, and 10s for the rest)", " computing (", "site one: the site's time slot has ended before the job: the job has written its checkpoint"} {
		if !strings.Contains(text, want) {
			t.Errorf("it is shown without %q, as\n%s", want, text)
		}
	}
	allNamed(t, b, id)
	if got := b.Read("results/done"); got != "60\n" {
		t.Errorf("it counted to %q", got)
	}
	if got := b.Read("results/input"); got != "given\n" {
		t.Errorf("the input became %q", got)
	}
	log := strings.Split(strings.TrimSpace(b.Read("results/log")), "\n")
	if len(log) != len(v.Attempts)+1 || log[0] != "once" || log[1] != "from 0" || log[2] == "from 0" {
		t.Errorf("attempts began %q", log)
	}
}

// TestALostAttemptGoesOnFromTheLastCheckpoint kills the second attempt.
func TestALostAttemptGoesOnFromTheLastCheckpoint(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", "run: "+counter)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, slot: 19s}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		r := b.Try("exec", id, "--", "cat", "/work/state", "/work/log")
		if r.Code != 0 || strings.Count(r.Stdout, "from ") < 2 {
			return errors.New("the second attempt does not run yet: " + r.Stdout + r.Stderr)
		}
		return nil
	})
	for _, p := range b.Processes() {
		pid, command, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.HasSuffix(strings.TrimSpace(command), " node") {
			syscall.Kill(n, syscall.SIGKILL)
		}
	}
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) < 3 {
		t.Fatalf("the run: %+v", v)
	}
	log := b.Read("results/log")
	if strings.Count(log, "from 0\n") != 1 || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
}

func TestAJobThatSavesNothingDoesNotGoRound(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 1s}", "run: sleep 1000")
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, slot: 12s}\n")
	r := b.Try("--sites", sites, "run", "-q", job)
	if r.Code == 0 || !strings.Contains(r.Stderr, "changed nothing") {
		t.Errorf("it ended with %+v", r)
	}
}

func TestACheckpointNow(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]", "run: "+counter)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/work/log"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	time.Sleep(time.Second) // in which it counts
	b.Must("checkpoint", id)
	v := b.Await(id, time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v", v)
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
	other := b.File("other.yaml", "image: "+strings.TrimSpace(strings.Split(strings.Split(b.Read("job.yaml"), "image: ")[1], "\n")[0])+"\nrun: sleep 1000\n")
	id = strings.TrimSpace(b.Must("run", "-d", other))
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("exec", id, "--", "true"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	if r := b.Try("checkpoint", id); r.Code == 0 || !strings.Contains(r.Stderr, "checkpoint:") {
		t.Errorf("a job that cannot save itself: %+v", r)
	}
	b.Must("stop", id)
}

// TestLogsGoOnAcrossACheckpoint: what was printed before it stays in sight, while
// the run continues and afterwards, and a reader who follows misses nothing.
func TestLogsGoOnAcrossACheckpoint(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 3s}", `run: |
  trap 'echo saved | tee state; exit 85' TERM
  if [ -e state ]; then echo "second part"; else echo "first part"; fi
  while [ ! -e enough ]; do sleep 0.1; done`)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	says := func(want string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			if r := b.Try("logs", id); r.Stdout != want {
				return fmt.Errorf("it said %q, want %q %s", r.Stdout, want, r.Stderr)
			}
			return nil
		})
	}
	says("first part\n")
	var followed strings.Builder
	follow := b.Command("logs", "-f", id)
	follow.Stdout = &followed
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { follow.Process.Kill() })
	b.Must("checkpoint", id)
	const all = "first part\nsaved\nsecond part\n"
	says(all)
	b.Touch(id, "enough")
	if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v", v)
	}
	says(all)
	if err := follow.Wait(); err != nil || followed.String() != all {
		t.Errorf("followed, it said %q, %v", followed.String(), err)
	}
	if out := b.Must("logs", "--attempt", "2", id); out != "second part\n" {
		t.Errorf("its second attempt said %q", out)
	}
}

// TestStreamsOfAJob are as it writes them: bytes of any kind, a line of any length, and each of
// the two apart. A job may close both.
func TestStreamsOfAJob(t *testing.T) {
	b, job := busyboxJob(t, "run: |", `  printf 'a\0b\377\n\033[31mc'; echo err >&2; head -c 5000000 /dev/zero | tr '\0' x`, "  exec >&- 2>&-; exit 3")
	r, want := b.Try("run", job), "a\x00b\xff\n\x1b[31mc"+strings.Repeat("x", 5_000_000)
	if r.Code != 3 || r.Stdout != want || !strings.Contains(r.Stderr, "err\n") {
		t.Errorf("code %d, %d bytes, %q", r.Code, len(r.Stdout), r.Stderr)
	}
	if l := b.Try("logs", "small"); l.Stdout != want {
		t.Errorf("its log has %d bytes, want %d", len(l.Stdout), len(want))
	}
}

// TestOutputsOfAnyName come home, as sparse as they are, and without set-user-id bits: a site
// gives nobody the rights of its user.
func TestOutputsOfAnyName(t *testing.T) {
	b, job := busyboxJob(t, "volume: /data", `outputs: [{from: /data/o, to: ./r}, {from: '/data/o/\[x\].txt', to: ./r2}, {from: /data/o/-dash, to: "./r 3/ü"}]`, "run: |",
		`  mkdir -p /data/o/empty; cd /data/o; echo 1 >'a b.txt'; echo 2 >'[x].txt'; echo 3 >./-dash; echo 4 >"$(printf 'new\nline')"; echo 5 >"$(printf 'lat\351')"; echo 6 >'star*'`,
		"  echo 7 >set; chmod 6755 set; dd if=/dev/zero of=sparse bs=1 count=1 seek=5368709119 2>/dev/null")
	b.Must("run", job)
	for name, want := range map[string]string{"r/o/a b.txt": "1\n", "r2/[x].txt": "2\n", "r 3/ü/-dash": "3\n", "r/o/new\nline": "4\n", "r/o/lat\xe9": "5\n", "r/o/star*": "6\n"} {
		if got := b.Read(name); got != want {
			t.Errorf("%q holds %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]os.FileMode{"r/o/set": 0o755, "r/o/empty": os.ModeDir | 0o755} {
		if info, err := os.Stat(filepath.Join(b.Work, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, want %v: %v", name, info.Mode(), want, err)
		}
	}
	if info, err := os.Stat(filepath.Join(b.Work, "r/o/sparse")); err != nil || info.Size() != 5<<30 || sysOf(info).Blocks > 20_000 {
		t.Errorf("the sparse file: %v, %v", info, err)
	}
}

// TestOutputsThatTheirOwnerMayNotReadComeHome: else the run would wait for them for ever.
func TestOutputsThatTheirOwnerMayNotReadComeHome(t *testing.T) {
	testkit.AsRootToo(t)
	b, job := busyboxJob(t, "outputs: [{from: '/work/*', to: ./results}]",
		"run: 'mkdir /work/d; echo x > /work/d/f; echo y > /work/g; chmod 000 /work/d/f /work/d /work/g'")
	b.Must("run", job)
	if got := b.Read("results/d/f") + b.Read("results/g"); got != "x\ny\n" {
		t.Errorf("got %q", got)
	}
}

// TestAHeadThatCannotStartSaysWhy: its log is on the submitting machine, although the host is given
// back.
func TestAHeadThatCannotStartSaysWhy(t *testing.T) {
	b, job := busyboxJob(t, "nodes: 2", "network: eth77", "run: 'true'")
	r := b.Try("--sites", labSites(b, "2"), "run", job)
	if r.Code != 204 || !strings.Contains(r.Stderr, "start on site lab: listen on network eth77: this host has no such interface") ||
		!strings.Contains(r.Stderr, "Let `network:` name an interface") {
		t.Errorf("%d: %s", r.Code, r.Stderr)
	}
	if got := b.Must("logs", "--node", "0", "small"); !strings.Contains(got, "no such interface") {
		t.Errorf("its log is %q", got)
	}
}
