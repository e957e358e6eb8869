package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/machines"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/bee-hpc/bee/internal/testkit/virtualboxfake"
)

func TestMain(m *testing.M) {
	for _, main := range []func([]string) (int, bool){sshfarm.Main, machines.Main, virtualboxfake.Main} {
		if code, meant := main(os.Args); meant {
			os.Exit(code)
		}
	}
	if len(os.Args) == 6 && os.Args[1] == serveArg {
		fmt.Fprintln(os.Stderr, serve(os.Args[2], os.Args[3], os.Args[4], os.Args[5]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// rack is a bee whose sites file names hosts behind ssh.
func rack(t *testing.T, hosts int, lines ...string) (*testkit.Bee, *sshfarm.Farm, string) {
	t.Helper()
	return rackWith(t, sshfarm.Start(t, hosts), lines...)
}

func rackWith(t *testing.T, farm *sshfarm.Farm, lines ...string) (*testkit.Bee, *sshfarm.Farm, string) {
	t.Helper()
	b, job := busyboxJob(t, lines...)
	b.Env = append(append(b.Env, farm.Env()...), "BEE_SITES="+b.File("sites.yaml",
		"sites:\n  - {name: rack, provider: ssh, hosts: ["+strings.Join(farm.Names, ", ")+"], scratch: "+farm.Private+", slots: 2}\n"))
	return b, farm, job
}

// TestHostOfAnotherArchitecture gets the bee binary that a variable names. The host's
// programs say it is another; all else of it is this machine's.
func TestHostOfAnotherArchitecture(t *testing.T) {
	t.Parallel()
	arch, machine := "arm64", "aarch64"
	if runtime.GOARCH == arch {
		arch, machine = "amd64", "x86_64"
	}
	says := t.TempDir()
	if err := core.WriteProgram(filepath.Join(says, "uname"), []byte("#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo "+machine+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, farm, job := rackWith(t, sshfarm.Start(t, 1, "PATH="+says+":"+os.Getenv("PATH")), "run: echo it runs")
	own, err := os.ReadFile(testkit.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	variable, named := "BEE_BINARY_"+strings.ToUpper(arch), b.File("theirs/bee", string(own)+"for another architecture")
	for _, value := range []string{"", named + "-that-is-not-there"} {
		b.Env = append(b.Env, variable+"="+value)
		if r := b.Try("run", job); r.Code == 0 || !strings.Contains(r.Stderr, "h0 ("+arch+")") || !strings.Contains(r.Stderr, variable) || !strings.Contains(r.Stderr, value) {
			t.Errorf("%s=%s: %d\n%s", variable, value, r.Code, r.Stderr)
		}
	}
	b.Env = append(b.Env, variable+"="+named)
	if out := b.Must("run", job); !strings.Contains(out, "it runs") {
		t.Errorf("printed %q", out)
	}
	there, err := filepath.Glob(farm.There(filepath.Join(farm.Dir, "cache", "bee", "bin", "*")))
	if err != nil || len(there) != 1 {
		t.Fatalf("on the host: %v, %v", there, err)
	}
	if got, err := os.ReadFile(there[0]); err != nil || string(got) != b.Read("theirs/bee") {
		t.Errorf("the host has another binary than the one that is named: %v", err)
	}
	left(t, farm)
}

func left(t *testing.T, farm *sshfarm.Farm) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		runs, _ := filepath.Glob(filepath.Join(farm.Private, "*", "bee", "[^.]*"))
		if len(runs) > 0 {
			return os.ErrExist
		}
		return nil
	})
}

func TestRunOverHostsBehindSSHWithoutSharedFiles(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	b, farm, job := rack(t, 3, "nodes: 3",
		"inputs: [{from: ./in, to: /work}]",
		"setup: 'tr a-z A-Z </work/a.txt >/work/b.txt'",
		`run: 'for h in h1 h2; do /.bee/rsh $h "hostname; cat /work/b.txt; echo \$BEE_NODE_RANK >/work/rank-\$BEE_NODE_RANK"; done'`,
		"outputs: [{from: '/work/rank-*', to: ./results}, {from: /work/b.txt, to: ./results}]")
	b.File("in/a.txt", "data\n")
	r := b.Try("run", "-q", job)
	if r.Code != 0 || r.Stdout != "h1\nDATA\nh2\nDATA\n" {
		t.Fatalf("got %+v", r)
	}
	for file, want := range map[string]string{"rank-1": "1\n", "rank-2": "2\n", "b.txt": "DATA\n"} {
		if got := b.Read("results/" + file); got != want {
			t.Errorf("%s holds %q, want %q", file, got, want)
		}
	}
	left(t, farm)
	// The second time the image is there already.
	if r := b.Try("run", "-q", job); r.Code != 0 {
		t.Errorf("second run: %+v", r)
	}
	reachInto(t, b, job, "nodes: 2", 1)
	// What each host's node wrote was collected.
	for node := range 3 {
		b.Must("logs", "--node", strconv.Itoa(node), "small")
	}
}

// TestASiteWithThePathsOfThisMachine: who has the same name on both sides has his home,
// cache and scratch at the same paths there. That reports nothing of what is in them.
func TestASiteWithThePathsOfThisMachine(t *testing.T) {
	t.Parallel()
	b, farm, job := rack(t, 1, "nodes: 1",
		"inputs: [{from: ./in, to: /work}]", "run: 'cat /work/a.txt; echo new >/work/b.txt'",
		"checkpoint: {paths: [/work/b.txt]}", "outputs: [{from: /work/b.txt, to: ./results}]")
	work := filepath.Join(farm.Same, "work")
	if err := errors.Join(os.MkdirAll(work, 0o700), os.MkdirAll(filepath.Join(farm.Same, "store"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"state", "scratch"} {
		b.Env = append(b.Env, "BEE_"+strings.ToUpper(dir)+"="+filepath.Join(farm.Same, dir))
	}
	sites := b.File("same.yaml", "store: "+filepath.Join(farm.Same, "store")+"\n"+strings.Replace(b.Read("sites.yaml"), farm.Private, filepath.Join(farm.Same, "scratch"), 1))
	b.Env = append(b.Env, "BEE_SITES="+sites)
	b.Work = work
	b.File("in/a.txt", "data\n")
	if err := os.Rename(job, b.File("job.yaml", "")); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("run", "-q", "job.yaml"); r.Code != 0 || r.Stdout != "data\n" {
		t.Fatalf("got %+v", r)
	}
	if got := b.Read("results/b.txt"); got != "new\n" {
		t.Errorf("the output holds %q", got)
	}
}

func TestHostsBehindSSHShareTheVolumeWhereTheyShareTheScratch(t *testing.T) {
	t.Parallel()
	b, farm, job := rack(t, 2, "nodes: 2", `run: '/.bee/rsh h1 "hostname >/work/name"; cat /work/name'`)
	shared := filepath.Join(farm.Dir, "scratch")
	sites := b.File("shared.yaml", strings.Replace(b.Read("sites.yaml"), farm.Private, shared, 1))
	if r := b.Try("run", "-q", "--sites", sites, job); r.Code != 0 || r.Stdout != "h1\n" {
		t.Fatalf("got %+v", r)
	}
	if runs, _ := filepath.Glob(filepath.Join(shared, "*", "bee", "[^.]*")); len(runs) > 0 {
		t.Errorf("left: %v", runs)
	}
}

func TestLossOfAHostIsNoticedAndNamed(t *testing.T) {
	t.Parallel()
	b, farm, job := rack(t, 2, "nodes: 2", "run: 'echo ready; sleep 100'")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 30*time.Second, func() error {
		if b.Must("logs", id) != "ready\n" {
			return os.ErrNotExist
		}
		return nil
	})
	if err := farm.Link(t.Context(), 1, false); err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	testkit.Eventually(t, 60*time.Second, func() error {
		var v testkit.RunView
		b.JSON(&v, "show", "--json", id)
		if len(v.Attempts) == 0 || v.Attempts[0].Error == nil {
			return os.ErrNotExist
		}
		if e := v.Attempts[0].Error; e.Kind != "lost" || !strings.Contains(e.Message, "h1") {
			t.Errorf("got %+v, want a loss that names h1", e)
		}
		return nil
	})
	testkit.Figure(t, "noticed after %v", time.Since(cut).Round(time.Millisecond))
	if err := farm.Link(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	v := b.Await(id, 90*time.Second)
	if v.State != "failed" || v.Error == nil || v.Error.Kind != "lost" {
		t.Errorf("got %+v", v)
	}
	left(t, farm)
}

func TestTheJobOutlivesItsController(t *testing.T) {
	t.Parallel()
	b, farm, job := rack(t, 2, "nodes: 2", "run: 'echo begun; sleep 8; echo done >/work/result; echo done'",
		"outputs: [{from: /work/result, to: ./results}]")
	c := b.Command("run", "-q", job)
	var out strings.Builder
	c.Stdout = &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	id := ""
	testkit.Eventually(t, 30*time.Second, func() error {
		if id = strings.TrimSpace(b.Must("ps", "-q")); id == "" || b.Must("logs", id) != "begun\n" {
			return os.ErrNotExist
		}
		return nil
	})
	c.Process.Kill()
	c.Wait() //nolint:errcheck // it was killed
	b.Must("supervise")
	if v := b.Await(id, 60*time.Second); v.State != "succeeded" {
		t.Fatalf("got %+v", v)
	}
	if got := b.Read("results/result"); got != "done\n" {
		t.Errorf("the result holds %q", got)
	}
	if got := b.Must("logs", id); got != "begun\ndone\n" {
		t.Errorf("logs gave %q", got)
	}
	left(t, farm)
}

// TestARunMovesFromSSHToThisMachine: the volume of hosts that share no files
// comes along, the part of each of them.
func TestARunMovesFromSSHToThisMachine(t *testing.T) {
	t.Parallel()
	b, farm, job := rack(t, 2, "nodes: 2", "workdir: /work", "checkpoint: {grace: 5s}", "outputs: [{from: /work/*, to: results}]",
		"setup: mkdir parts", "run: "+strings.Replace(counter, "|\n", "|\n  for h in $(echo $BEE_NODELIST | tr , ' '); do /.bee/rsh $h 'echo $BEE_NODE_RANK > parts/by-$(hostname)'; done\n", 1))
	sites := b.File("both.yaml", b.Read("sites.yaml")+"  - {name: here, provider: local, hosts: 2}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/work/log"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	time.Sleep(time.Second) // in which it counts
	b.Must("move", id)
	v := b.Await(id, time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "rack" || v.Attempts[1].Site != "here" {
		t.Fatalf("the run: %+v", v)
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
	for _, host := range []string{"h0", "h1", "here-0", "here-1"} {
		if got := strings.TrimSpace(b.Read("results/parts/by-" + host)); got != host[len(host)-1:] {
			t.Errorf("what %s wrote came home as %q", host, got)
		}
	}
	left(t, farm)
}
