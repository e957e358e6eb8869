package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

func TestAttemptOnOneHost(t *testing.T) {
	c := newCluster(t, 1, "cat; env | sort; echo oops >&2; exit 3", withPlan(func(p *plan.Plan) {
		p.Setup = []string{"/bin/sh", "-c", "echo set up; mkdir made; echo made > made/it; ln -s it made/link"}
		p.Outputs = []string{"/work/made", "/work/none*"}
	})).startAll()
	r := c.result(20 * time.Second)
	c.awaitEnd(10*time.Second, 0)
	if r.Exit == nil || r.Exit.Code != 3 || len(r.Nodes) != 1 || !r.SharedVolume {
		t.Errorf("result: %+v", r)
	}
	if len(r.Outputs) != 1 || r.Outputs[0] != (plan.OutputMatch{Path: "volume/made", Bytes: 5}) {
		t.Errorf("outputs: %+v", r.Outputs)
	}
	out, errs := c.output()
	if !strings.HasPrefix(out, "set up\n") || errs != "oops\n" {
		t.Errorf("output %q and %q", out, errs)
	}
	for _, want := range []string{"BEE_NODE_RANK=0\n", "BEE_NUM_NODES=1\n", "BEE_RUN_ID=r1\n", "BEE_ATTEMPT=1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the environment", want)
		}
	}
	if strings.Contains(out, "SLURM_") || strings.Contains(out, "PMI_RANK") {
		t.Errorf("the batch system's variables came in: %s", out)
	}
	checkEvents(t, plan.EventsPath(c.configs[0].Host.Dir))
}

// checkEvents holds the journal to what plan.Event promises.
func checkEvents(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var seq int64
	begun := map[core.Phase]bool{}
	last := plan.Event{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		last = plan.Event{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatal(err)
		}
		if seq++; last.Seq != seq {
			t.Errorf("event %d has number %d", seq, last.Seq)
		}
		if last.End && !begun[last.Phase] {
			t.Errorf("phase %s ends before it begins", last.Phase)
		}
		begun[last.Phase] = begun[last.Phase] || last.Begin
	}
	if last.Result == nil {
		t.Error("the last event has no result")
	}
}

func TestEarlyEndOfConfigurationIsNoError(t *testing.T) {
	if r := testkit.NewBee(t).Try("node"); r.Code != 0 || r.Stdout+r.Stderr != "" {
		t.Errorf("code %d, %q", r.Code, r.Stdout+r.Stderr)
	}
}

// each runs a command on every node through the launch agent.
const each = `for h in $(echo $BEE_NODELIST | tr , ' '); do /.bee/rsh $h "$1" || exit $?; done`

func TestAttemptOverSeveralHosts(t *testing.T) {
	const size = 5
	for _, shape := range []struct {
		name   string
		shared bool
		option option
	}{
		{"with directories of their own", false, func(*cluster) {}},
		{"on one shared directory", true, sharedDir},
	} {
		t.Run(shape.name, func(t *testing.T) {
			c := newCluster(t, size, `set -- 'cat input >/dev/null || exit 9; echo $BEE_NODE_RANK > rank.$BEE_NODE_RANK; mkdir -p dir; echo x > dir/of.$BEE_NODE_RANK; echo here is $BEE_NODE_RANK of $BEE_NUM_NODES'
`+each, shape.option, withPlan(func(p *plan.Plan) {
				p.Setup = []string{"/bin/sh", "-c", "seq 100000 > input"}
				p.Outputs = []string{"/work/rank.*", "/work/dir"}
			})).startAll()
			r := c.result(60 * time.Second)
			c.awaitEnd(10*time.Second, 0, 1, 2, 3, 4)
			if r.Exit == nil || r.Exit.Code != 0 || r.SharedVolume != shape.shared || len(r.Nodes) != size {
				t.Fatalf("result: %+v", r)
			}
			out, _ := c.output()
			for rank := range size {
				if !strings.Contains(out, fmt.Sprintf("here is %d of %d\n", rank, size)) {
					t.Errorf("rank %d says nothing: %q", rank, out)
				}
				for _, f := range []string{fmt.Sprintf("rank.%d", rank), fmt.Sprintf("dir/of.%d", rank)} {
					if _, err := os.Stat(filepath.Join(plan.VolumeDir(c.configs[0].Host.Dir), f)); err != nil {
						t.Errorf("output of node %d is not on the head: %v", rank, err)
					}
				}
			}
			if len(r.Outputs) != size+1 {
				t.Errorf("outputs: %+v", r.Outputs)
			}
			for _, n := range r.Nodes {
				if (n.Energy.Joules > 0) == (n.Energy.Unknown != "") || n.Energy.Boot == "" {
					t.Errorf("energy of node %d is %+v, expected joules, or else a reason", n.Rank, n.Energy)
				}
			}
			checkEvents(t, plan.EventsPath(c.configs[0].Host.Dir))
			for _, cfg := range c.configs {
				if left, _ := filepath.Glob(filepath.Join(cfg.Host.Cache, "tmp", "*")); len(left) > 0 {
					t.Errorf("left in the cache: %v", left)
				}
			}
		})
	}
}

// A copy that is kept while the job runs has the files of a checkpoint of all hosts,
// whether they share their volume or not; what keeps one from being made is reported.
func TestACopyHasTheFilesOfAllHosts(t *testing.T) {
	c := newCluster(t, 2, `touch begun; until [ -e go ]; do sleep 0.1; done
for h in $(echo $BEE_NODELIST | tr , ' '); do /.bee/rsh $h 'echo $BEE_NODE_RANK > state.$BEE_NODE_RANK; echo $BEE_NODE_RANK > out.$BEE_NODE_RANK'; done; sleep 1000`, withPlan(func(p *plan.Plan) {
		p.Outputs = []string{"/work/out.*"}
		p.Checkpoint = &plan.Checkpoint{Every: 200 * time.Millisecond, Grace: 10 * time.Second, Paths: []string{path.Join(p.Volume, "state.*")}}
	})).startAll()
	head, found := c.dial(0), errors.New("found")
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	remarks, kept := 0, 0
	err := head.Watch(ctx, 0, func(e plan.Event) error {
		switch {
		case e.Remark:
			remarks++
			testkit.Wording(t, "remark", e.Message)
			return os.WriteFile(filepath.Join(plan.VolumeDir(c.configs[0].Host.Dir), "go"), nil, 0o600)
		case e.Snapshot > 0:
			kept = e.Snapshot
			return found
		}
		return nil
	})
	if !errors.Is(err, found) || remarks != 1 {
		t.Fatalf("%v, after %d remarks", err, remarks)
	}
	for _, f := range []string{"state.0", "state.1", "out.0", "out.1", "begun"} {
		if _, err := os.Stat(filepath.Join(plan.SnapshotDir(c.configs[0].Host.Dir, kept), f)); err != nil {
			t.Error(err)
		}
	}
	c.signal(0, syscall.SIGTERM)
	c.awaitEnd(20*time.Second, 0, 1)
}

// A job that fails because one of its hosts was lost may end before the loss is
// noticed: it is the host's failure all the same, from which a run continues.
func TestAJobThatFailsWithItsHost(t *testing.T) {
	c := newCluster(t, 2, "/.bee/rsh host1 'echo started; sleep 1000'; exit 7").startAll()
	testkit.Eventually(t, 20*time.Second, func() error {
		if out, _ := c.output(); !strings.Contains(out, "started") {
			return fmt.Errorf("output so far %q", out)
		}
		return nil
	})
	c.signal(1, syscall.SIGKILL)
	if r := c.result(10 * time.Second); r.Exit != nil || r.Kind != "lost" || r.Host != "host1" {
		t.Errorf("result: %+v", r)
	}
	c.awaitEnd(10*time.Second, 0)
}

func TestALostNodeEndsTheAttempt(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTERM} {
		for rank := range 3 {
			t.Run(fmt.Sprintf("%v of node %d", s, rank), func(t *testing.T) {
				c := newCluster(t, 3, `set -- 'sleep 1000 & echo started'
`+each+"; sleep 1000").startAll()
				c.awaitPhase(core.PhaseRun)
				testkit.Eventually(t, 10*time.Second, func() error {
					if out, _ := c.output(); strings.Count(out, "started") < 3 {
						return fmt.Errorf("output so far %q", out)
					}
					return nil
				})
				begun := time.Now()
				c.signal(rank, s)
				var others []int
				for r := range 3 {
					if r != rank || s != syscall.SIGSTOP {
						others = append(others, r)
					}
				}
				limit := 8 * time.Second // to notice, and the graces to end
				if rank > 0 {
					r := c.result(limit)
					t.Logf("noticed after %v: %s", time.Since(begun).Round(time.Millisecond), r.Message)
					if r.Exit != nil || r.Kind != "lost" || r.Host != "host"+strconv.Itoa(rank) || !strings.Contains(r.Message, r.Host) {
						t.Errorf("result: %+v", r)
					}
				} else if s == syscall.SIGTERM {
					if r := c.result(limit); r.Kind != "stopped" {
						t.Errorf("result: %+v", r)
					}
				}
				if s == syscall.SIGSTOP {
					for _, r := range others {
						c.awaitProcess(15*time.Second, r)
					}
					c.signal(rank, syscall.SIGCONT) // it ends as soon as it sees what happened
				}
				c.awaitEnd(15*time.Second, 0, 1, 2)
			})
		}
	}
}

func TestTimeLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		run    string
		plan   func(p *plan.Plan)
		kind   string
		output string
	}{
		{
			"a timeout lets the task end in peace", "trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done",
			func(p *plan.Plan) { p.Timeout = 500 * time.Millisecond }, "permanent", "saved\n",
		},
		{
			"a task that ignores TERM is killed", "trap '' TERM; while :; do sleep 0.05; done",
			func(p *plan.Plan) { p.Timeout = 500 * time.Millisecond }, "permanent", "",
		},
		{
			"the site's deadline", "trap 'echo saved; exit 0' TERM; echo $BEE_DEADLINE >/dev/null; while :; do sleep 0.05; done",
			func(p *plan.Plan) { p.Deadline = time.Now().Add(6 * time.Second) }, "lost", "saved\n",
		},
		{
			"a task that does not save itself when it is asked to", "trap '' TERM; while :; do sleep 0.05; done",
			func(p *plan.Plan) {
				p.Deadline = time.Now().Add(6 * time.Second)
				p.Checkpoint = &plan.Checkpoint{Signal: int(syscall.SIGTERM), Grace: 500 * time.Millisecond}
			}, "lost", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := newCluster(t, 1, c.run, withPlan(c.plan)).startAll()
			r := cl.result(20 * time.Second)
			cl.awaitEnd(10*time.Second, 0)
			if r.Exit != nil || r.Kind != c.kind || c.kind == "lost" && r.Remedy == "" {
				t.Errorf("result: %+v", r)
			}
			testkit.Wording(t, "message", r.Message)
			if out, _ := cl.output(); out != c.output {
				t.Errorf("output %q, want %q", out, c.output)
			}
		})
	}
}

// A checkpoint that its user wants is taken while the job continues, where that can be.
func TestACheckpointWhileTheJobGoesOn(t *testing.T) {
	for _, c := range []struct {
		name       string
		run        string
		checkpoint plan.Checkpoint
		kept       int
	}{
		{
			"by a command", "echo begun; until [ -e enough ]; do [ ! -e ask ] || { echo $$ > state; rm ask; }; sleep 0.05; done; echo $$ > pid",
			plan.Checkpoint{Command: []string{"/bin/sh", "-c", "touch ask; while [ -e ask ]; do sleep 0.05; done"}},
			2,
		},
		{
			"of what it writes by itself", "echo $$ > state; echo begun; until [ -e enough ]; do sleep 0.05; done; echo $$ > pid",
			plan.Checkpoint{Every: time.Hour},
			2,
		},
		{"of nothing yet", "echo begun; until [ -e enough ]; do sleep 0.05; done", plan.Checkpoint{Every: time.Hour}, 0},
		{"by a command that fails", "echo begun; until [ -e enough ]; do sleep 0.05; done", plan.Checkpoint{Command: []string{"/bin/false"}}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := newCluster(t, 1, c.run, withPlan(func(p *plan.Plan) {
				p.Checkpoint = &c.checkpoint
				p.Checkpoint.Signal, p.Checkpoint.Grace = int(syscall.SIGTERM), 30*time.Second
				p.Checkpoint.Paths = []string{p.Volume + "/state"}
			})).startAll()
			cl.awaitPhase(core.PhaseRun)
			testkit.Eventually(t, 20*time.Second, func() error {
				if out, _ := cl.output(); out != "begun\n" {
					return fmt.Errorf("output so far %q", out)
				}
				return nil
			})
			head, dir := cl.dial(0), cl.configs[0].Host.Dir
			volume := plan.VolumeDir(dir)
			for n := 1; n <= max(1, c.kept); n++ {
				kept, err := head.Save(t.Context(), false)
				if kept != min(n, c.kept) || (err == nil) != (c.kept > 0) {
					t.Errorf("the call gave %d, %v", kept, err)
				}
				if c.kept == 0 {
					testkit.Wording(t, "error", testkit.ErrorText(err))
				}
			}
			if err := os.WriteFile(filepath.Join(volume, "enough"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.kept > 0 {
				testkit.Eventually(t, 20*time.Second, func() error {
					raw, err := os.ReadFile(filepath.Join(volume, "pid"))
					if err == nil && len(raw) == 0 {
						err = errors.New("it is still empty")
					}
					return err
				})
				state, serr := os.ReadFile(filepath.Join(plan.SnapshotDir(dir, c.kept), "state"))
				if pid, err := os.ReadFile(filepath.Join(volume, "pid")); errors.Join(err, serr) != nil || string(pid) != string(state) || len(pid) == 0 {
					t.Errorf("the checkpoint holds %q, %v, and process %s has ended", state, serr, pid)
				}
			}
			r := cl.result(20 * time.Second)
			cl.awaitEnd(10*time.Second, 0)
			if r.Continue || r.Exit == nil || r.Exit.Code != 0 {
				t.Errorf("it ended with %+v", r)
			}
		})
	}
}

// A job that its user has write its checkpoint is not killed when it is too slow for that, or
// cannot be asked: it continues, and its end after it was asked is its answer.
func TestACheckpointThatItsUserWants(t *testing.T) {
	for _, c := range []struct {
		name       string
		run        string
		checkpoint plan.Checkpoint
		deadline   time.Duration
		remark     string
		ends       func(r plan.Result) bool
		output     string
	}{
		{
			"a job that is slow to save itself", `trap 'until [ -e told ]; do sleep 0.05; done; echo saved; exit 0' TERM; echo begun; while :; do sleep 0.05; done`,
			plan.Checkpoint{},
			0, "`grace` of 300ms", func(r plan.Result) bool { return r.Continue && r.Exit == nil }, "begun\nsaved\n",
		},
		{
			"one that cannot be asked", "echo begun; until [ -e told ]; do sleep 0.05; done; exit 3",
			plan.Checkpoint{Command: []string{"/bin/false"}},
			0, "`checkpoint.command`", func(r plan.Result) bool { return !r.Continue && r.Exit != nil && r.Exit.Code == 3 }, "begun\n",
		},
		{
			"one that does not answer until the slot ends", "trap 'echo asked' TERM; echo begun; while :; do sleep 0.05; done",
			plan.Checkpoint{},
			6 * time.Second, "`grace` of 300ms", func(r plan.Result) bool { return !r.Continue && strings.Contains(r.Message, "`grace` of 300ms") }, "begun\nasked\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := newCluster(t, 1, c.run, withPlan(func(p *plan.Plan) {
				p.Checkpoint = &c.checkpoint
				p.Checkpoint.Signal, p.Checkpoint.Grace = int(syscall.SIGTERM), 300*time.Millisecond
				if c.deadline > 0 {
					p.Deadline = time.Now().Add(c.deadline)
				}
			})).startAll()
			cl.awaitPhase(core.PhaseRun)
			testkit.Eventually(t, 20*time.Second, func() error {
				if out, _ := cl.output(); out != "begun\n" {
					return fmt.Errorf("output so far %q", out)
				}
				return nil
			})
			head := cl.dial(0)
			if _, err := head.Save(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			reported := ""
			err := head.Watch(t.Context(), 0, func(e plan.Event) error {
				if !e.Remark {
					return nil
				}
				if reported += e.Message; len(c.checkpoint.Command) == 0 {
					if _, err := head.Save(t.Context(), true); !core.IsKind(err, core.Busy) {
						t.Errorf("asked again: %v", err)
					}
				}
				return os.WriteFile(filepath.Join(plan.VolumeDir(cl.configs[0].Host.Dir), "told"), nil, 0o600)
			})
			r := cl.result(20 * time.Second)
			cl.awaitEnd(10*time.Second, 0)
			if out, _ := cl.output(); err != nil || !strings.Contains(reported, c.remark) || !c.ends(r) || out != c.output {
				t.Errorf("it was told %q, %v; it ended with %+v, output %q", reported, err, r, out)
			}
			checkEvents(t, plan.EventsPath(cl.configs[0].Host.Dir))
		})
	}
}

func TestMissingHostsAreNamed(t *testing.T) {
	c := newCluster(t, 3, "true", withPlan(func(p *plan.Plan) { p.JoinTimeout = 10 * time.Second })).start(0, 2) // in which a busy machine starts the others
	r := c.result(10 * time.Second)
	c.awaitEnd(70*time.Second, 0, 2) // a node that starts when the head is gone looks for it for a minute
	if r.Kind != "lost" || !strings.Contains(r.Message, "host1 (node 1)") || strings.Contains(r.Message, "host2") || r.Host != "host1" || !strings.Contains(r.Remedy, "`bee logs --node 1 r1`") {
		t.Errorf("result: %+v", r)
	}
}

func TestWhatKeepsANodeFromItsWorkIsTold(t *testing.T) {
	for rank := range 2 {
		t.Run(fmt.Sprintf("cache of node %d", rank), func(t *testing.T) {
			c := newCluster(t, 2, "true")
			file := filepath.Join(c.bee.Dir, "file")
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			c.configs[rank].Host.Cache = filepath.Join(file, "cache")
			if rank == 0 {
				c.start(0)
			} else {
				c.startAll()
			}
			r := c.result(10 * time.Second)
			if r.Exit != nil || r.Host != fmt.Sprintf("host%d", rank) || !strings.Contains(r.Message, "image cache") || r.Remedy == "" {
				t.Errorf("result: %+v", r)
			}
			c.awaitEnd(10*time.Second, 0)
		})
		t.Run(fmt.Sprintf("network of node %d", rank), func(t *testing.T) {
			c := newCluster(t, 2, "true")
			c.configs[rank].Network = "no-such-if0"
			if rank == 0 {
				c.start(0)
			} else {
				c.startAll()
			}
			r := c.result(10 * time.Second)
			if r.Exit != nil || r.Kind != "unsupported" || r.Host != fmt.Sprintf("host%d", rank) || !strings.Contains(r.Remedy, "network:") {
				t.Errorf("result: %+v", r)
			}
			c.awaitEnd(10*time.Second, 0)
		})
	}
}

func TestMissingImageAndCommand(t *testing.T) {
	t.Run("no image", func(t *testing.T) {
		c := newCluster(t, 2, "true", withPlan(func(p *plan.Plan) { p.Image.ID = "sha256:" + strings.Repeat("0", 64) })).startAll()
		r := c.result(10 * time.Second)
		c.awaitEnd(10*time.Second, 0, 1)
		if r.Kind != "not found" || r.Remedy == "" {
			t.Errorf("result: %+v", r)
		}
	})
	t.Run("no command", func(t *testing.T) {
		c := newCluster(t, 1, "", withPlan(func(p *plan.Plan) { p.Run = []string{"no-such-program"} })).startAll()
		r := c.result(10 * time.Second)
		if _, errs := c.output(); r.Exit == nil || r.Exit.Code != 127 || !strings.Contains(errs, "no-such-program") {
			t.Errorf("result %+v, stderr %q", r, errs)
		}
	})
}

// TestAFullDiskIsTold as a lost site: a run that has a checkpoint continues on another one.
func TestAFullDiskIsTold(t *testing.T) {
	testkit.RequireRoot(t)
	c := newCluster(t, 1, "head -c 8000000 /dev/zero; sleep 1000")
	dir := c.configs[0].Host.Dir
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=3m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	c.startAll()
	r := c.result(15 * time.Second)
	c.awaitEnd(10*time.Second, 0)
	if r.Exit != nil || r.Kind != "lost" || !strings.Contains(r.Message, "no space left") || !strings.Contains(r.Remedy, "host0") {
		t.Errorf("result: %+v", r)
	}
	checkEvents(t, plan.EventsPath(dir))
	if err := unix.Unmount(dir, 0); err != nil {
		t.Error(err)
	}
}
