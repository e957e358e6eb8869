package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/wire"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// cluster is an attempt on nodes that the test itself starts as processes of
// this machine, each with a directory and an image cache of its own.
type cluster struct {
	t       *testing.T
	bee     *testkit.Bee
	configs []plan.Config
	nodes   []*exec.Cmd
	ended   []chan struct{}
	logs    []*bytes.Buffer
}

type option func(c *cluster)

func withPlan(f func(p *plan.Plan)) option {
	return func(c *cluster) { f(c.configs[0].Plan) }
}

// sharedDir puts all nodes on one directory and one image cache.
func sharedDir(c *cluster) {
	for i := range c.configs {
		c.configs[i].Host.Dir, c.configs[i].Host.Cache = c.configs[0].Host.Dir, c.configs[0].Host.Cache
	}
}

// newCluster prepares an attempt; only the head's host has the image.
func newCluster(t *testing.T, size int, run string, options ...option) *cluster {
	t.Helper()
	bee := testkit.NewBee(t)
	bee.Env = append(bee.Env, "BEE_CACHE="+filepath.Join(bee.Dir, "cache")) // the head's host's alone
	archive := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	bee.Must("image", "import", archive)
	var images []core.Image
	bee.JSON(&images, "image", "ls", "--json")
	if len(images) != 1 {
		t.Fatalf("%d images in the cache", len(images))
	}
	authority, err := wire.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, bee: bee}
	p := &plan.Plan{
		Job: "test", Image: images[0], Slots: 2, Volume: "/work", Workdir: "/work", Run: []string{"/bin/sh", "-c", run},
		Grace: time.Second, JoinTimeout: time.Minute,
	}
	shared := wire.NewKey()
	for rank := range size {
		cert, key, err := authority.Issue(plan.NodeName(rank))
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("host%d", rank)
		dir, cache := filepath.Join(bee.Dir, name, "run"), filepath.Join(bee.Dir, name, "cache")
		if rank == 0 {
			cache = filepath.Join(bee.Dir, "cache")
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.Names = append(p.Names, name)
		c.configs = append(c.configs, plan.Config{
			Version: plan.Version, Owner: core.Owner{User: "test", Run: "r1", Attempt: 1}, Rank: rank, Size: size,
			Host: core.Host{Index: rank, Name: name, Slots: 2, Dir: dir, Cache: cache},
			CA:   authority.Certificate(), Cert: cert, Key: key, Shared: shared, Runtime: "auto", Network: "lo",
		})
	}
	c.configs[0].Plan = p
	for _, o := range options {
		o(c)
	}
	return c
}

// start starts the nodes of the given ranks, the head first.
func (c *cluster) start(ranks ...int) *cluster {
	c.t.Helper()
	c.nodes, c.ended = make([]*exec.Cmd, len(c.configs)), make([]chan struct{}, len(c.configs))
	c.logs = make([]*bytes.Buffer, len(c.configs))
	for _, rank := range ranks {
		if rank > 0 && c.configs[rank].Head == nil {
			c.configs[rank].Head = c.headAddresses()
		}
		c.launch(rank)
	}
	return c
}

func (c *cluster) startAll() *cluster {
	var ranks []int
	for rank := range c.configs {
		ranks = append(ranks, rank)
	}
	return c.start(ranks...)
}

func (c *cluster) launch(rank int) {
	c.t.Helper()
	raw, err := json.Marshal(c.configs[rank])
	if err != nil {
		c.t.Fatal(err)
	}
	n := c.bee.Command("node")
	n.Env = append(n.Env, "SLURM_JOB_ID=7", "PMI_RANK=3")
	n.Stdin = bytes.NewReader(raw)
	c.logs[rank] = &bytes.Buffer{}
	n.Stderr = c.logs[rank]
	if err := n.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { n.Wait(); close(ended) }() //nolint:errcheck // however it ends
	c.nodes[rank], c.ended[rank] = n, ended
	c.t.Cleanup(func() {
		n.Process.Kill()
		<-ended
		if c.t.Failed() {
			c.t.Logf("node %d wrote: %s", rank, c.logs[rank])
		}
	})
}

func (c *cluster) dial(rank int) *client.Client {
	c.t.Helper()
	var found *client.Client
	testkit.Eventually(c.t, 10*time.Second, func() error {
		conn, err := wire.DialUnix(context.Background(), plan.SocketPath(c.configs[rank].Host.Dir, rank))
		if err == nil {
			conn, err = wire.Key(c.configs[rank].Shared).Client(context.Background(), conn, plan.ControllerName, plan.NodeName(rank))
		}
		if err == nil {
			found, err = client.New(conn)
		}
		return err
	})
	c.t.Cleanup(func() { found.Close() })
	return found
}

func (c *cluster) headAddresses() []string {
	c.t.Helper()
	head := c.dial(0)
	defer head.Close()
	addrs, err := head.Addresses(context.Background())
	if err != nil || len(addrs) == 0 {
		c.t.Fatalf("the head's addresses: %v, %v", addrs, err)
	}
	return addrs
}

// awaitPhase waits until the head is in a phase.
func (c *cluster) awaitPhase(p core.Phase) {
	c.t.Helper()
	head := c.dial(0)
	defer head.Close()
	found := errors.New("found")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := head.Watch(ctx, 0, func(e plan.Event) error {
		if e.Phase == p && e.Begin {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		c.t.Fatalf("phase %s: %v", p, err)
	}
}

func (c *cluster) signal(rank int, s syscall.Signal) {
	c.t.Helper()
	if err := c.nodes[rank].Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// result waits for the head's result.
func (c *cluster) result(within time.Duration) plan.Result {
	c.t.Helper()
	var r plan.Result
	testkit.Eventually(c.t, within, func() error {
		raw, err := os.ReadFile(plan.ResultPath(c.configs[0].Host.Dir))
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		return err
	})
	return r
}

// awaitProcess waits until the process of a node has ended by itself.
func (c *cluster) awaitProcess(within time.Duration, rank int) {
	c.t.Helper()
	testkit.Eventually(c.t, within, func() error {
		select {
		case <-c.ended[rank]:
			return nil
		default:
			return fmt.Errorf("node %d still runs", rank)
		}
	})
}

// awaitEnd waits until the nodes have ended by themselves, with all that ran
// in their containers.
func (c *cluster) awaitEnd(within time.Duration, ranks ...int) {
	c.t.Helper()
	for _, rank := range ranks {
		c.awaitProcess(within, rank)
	}
	testkit.Eventually(c.t, within, func() error {
		for _, rank := range ranks {
			for _, p := range c.bee.Processes() {
				if strings.Contains(p, c.configs[rank].Host.Dir) || strings.Contains(p, "bee container-init") {
					return errors.New("still runs: " + p)
				}
			}
		}
		return nil
	})
}

func (c *cluster) output() (stdout, stderr string) {
	c.t.Helper()
	var out, errs strings.Builder
	err := tasklog.Read(context.Background(), plan.OutputPath(c.configs[0].Host.Dir), 0, func(f tasklog.Frame) error {
		if f.Stream == tasklog.Stdout {
			out.Write(f.Data)
		} else {
			errs.Write(f.Data)
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out.String(), errs.String()
}

// TestSeveralNodesOfAHost: the first host has two, in one process, of which one
// is the head; the second has the third.
func TestSeveralNodesOfAHost(t *testing.T) {
	c := newCluster(t, 3, `for h in host0 host1 host2; do /.bee/rsh $h 'echo $BEE_NODE_RANK of $BEE_NUM_NODES on $(cat name 2>/dev/null)'; done`)
	c.configs[1].Host.Dir, c.configs[1].Host.Cache = c.configs[0].Host.Dir, c.configs[0].Host.Cache
	for i := range c.configs {
		c.configs[i].PerHost = 2
	}
	c.configs[0].Siblings = c.configs[1:2]
	if err := os.MkdirAll(plan.VolumeDir(c.configs[0].Host.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(plan.VolumeDir(c.configs[0].Host.Dir), "name"), []byte("all"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.start(0, 2)
	if r := c.result(30 * time.Second); r.Exit == nil || r.Exit.Code != 0 || len(r.Nodes) != 3 {
		t.Fatalf("it ended with %+v", r)
	}
	if out, errs := c.output(); out != "0 of 3 on all\n1 of 3 on all\n2 of 3 on all\n" {
		t.Errorf("it said %q, %q", out, errs)
	}
	c.awaitEnd(10*time.Second, 0, 2)
}

// TestAHostWithSeveralNodesDiesAsOne.
func TestAHostWithSeveralNodesDiesAsOne(t *testing.T) {
	c := newCluster(t, 3, "sleep 100")
	c.configs[2].Host.Dir, c.configs[2].Host.Cache = c.configs[1].Host.Dir, c.configs[1].Host.Cache
	c.start(0)
	for i := range c.configs[1:] {
		c.configs[1+i].PerHost, c.configs[1+i].Head = 2, c.headAddresses()
	}
	c.configs[1].Siblings = c.configs[2:]
	c.launch(1)
	c.awaitPhase(core.PhaseRun)
	c.signal(1, syscall.SIGKILL)
	if r := c.result(30 * time.Second); r.Exit != nil || r.Kind != "lost" {
		t.Errorf("it ended with %+v", r)
	}
	c.awaitEnd(20*time.Second, 0, 1)
}
