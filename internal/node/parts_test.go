package node

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

func TestGroupIsTheLowestRankOnTheSameDirectory(t *testing.T) {
	shared, own := t.TempDir(), t.TempDir()
	at := func(rank int, dir string) *node {
		n := &node{config: plan.Config{Rank: rank, Size: 4, Host: core.Host{Dir: dir}}}
		if err := os.MkdirAll(plan.NodeDir(dir, rank), 0o700); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// Ranks 0 and 3 are alone; 1 and 2 share a directory that the head has not.
	nodes := []*node{at(0, own), at(1, shared), at(2, shared), at(3, t.TempDir())}
	var nonces []string
	for _, n := range nodes {
		nonce, err := n.LeaveNonce()
		if err != nil {
			t.Fatal(err)
		}
		nonces = append(nonces, nonce)
	}
	for rank, want := range []int{0, 1, 1, 3} {
		if got := nodes[rank].findGroup(nonces); got != want {
			t.Errorf("rank %d is in group %d, want %d", rank, got, want)
		}
	}
}

func TestOutputFiles(t *testing.T) {
	volume := t.TempDir()
	for _, f := range []string{"a.log", "b.log", "out/x", "out/deep/y", "out/.hidden", "other/z"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(volume, filepath.Dir(f)), 0o755), os.WriteFile(filepath.Join(volume, f), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"latest": "out", "deep": "latest/deep", "other/l": "../deep", "other/out": "/etc"} {
		if err := os.Symlink(to, filepath.Join(volume, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		globs []string
		want  []string
		fails bool
	}{
		{"files", []string{"*.log"}, []string{"a.log", "b.log"}, false},
		{"a directory with all that is in it", []string{"out"}, []string{"out/.hidden", "out/deep/y", "out/x"}, false},
		{"both, once each", []string{"out", "out/x", "a.log"}, []string{"a.log", "out/.hidden", "out/deep/y", "out/x"}, false},
		{"nothing", []string{"none*", "[bad"}, nil, true},
		{"what links lead to inside", []string{"latest/x", "other"}, []string{"deep", "latest", "other/l", "other/out", "other/z", "out/deep/y", "out/x"}, false},
		{"nothing hidden", []string{"out/*"}, []string{"out/deep/y", "out/x"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := fsutil.OpenRoot(volume)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			if got, err := treesync.Match(root, c.globs); !slices.Equal(got, c.want) || (err != nil) != c.fails {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestEnvironmentHoldsNothingOfTheCallers(t *testing.T) {
	for _, name := range []string{"SLURM_JOB_ID", "PBS_JOBID", "PMI_RANK", "OMPI_COMM_WORLD_SIZE", "LD_PRELOAD"} {
		t.Setenv(name, "trap")
	}
	deadline := time.Unix(1700000000, 0)
	p := &plan.Plan{
		Image:  core.Image{Config: core.ImageConfig{Env: []string{"PATH=/app/bin:/bin", "A=image", "B=image"}}},
		Volume: "/work", Env: map[string]string{"B": "beefile"}, Secrets: map[string]string{"S": "secret"}, Deadline: deadline,
	}
	c := plan.Config{Rank: 1, Size: 2, Owner: core.Owner{Run: "r1", Attempt: 3}}
	env := environment(p, c, mpi.Job{RunDir: "/.bee/run", Hosts: []mpi.Host{{Name: "h0", IP: "10.0.0.1", Slots: 2}, {Name: "h1", IP: "10.0.0.2", Slots: 4}}}, nil)
	for _, want := range []string{
		"PATH=/app/bin:/bin", "A=image", "B=beefile", "S=secret", "SHELL=/bin/sh", "BEE_NODE_RANK=1", "BEE_NUM_NODES=2",
		"BEE_NODELIST=h0,h1", "BEE_NODE_IPS=10.0.0.1,10.0.0.2", "BEE_RANKS_PER_NODE=4", "BEE_RUN_ID=r1", "BEE_ATTEMPT=3", "BEE_DEADLINE=1700000000",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if own := public(env, p.Secrets); slices.Contains(own, "S=secret") || len(own) != len(env)-1 {
		t.Errorf("the container itself gets %q", own)
	}
	for _, e := range env {
		if strings.Contains(e, "trap") {
			t.Errorf("%s came in from outside", e)
		}
	}
}

// TestNamesInside: what a job calls its guests is the same however many there are.
func TestNamesInside(t *testing.T) {
	lone, two := []peercall.Member{{Name: "h0"}}, []peercall.Member{{Name: "h0", IP: "10.0.0.1"}, {Rank: 1, Name: "h1", IP: "10.0.0.2"}}
	for name, c := range map[string]struct {
		vm      *plan.VM
		members []peercall.Member
		hosts   []string
		ips     string
	}{
		"a guest":     {&plan.VM{}, lone, []string{"127.0.0.1 h0 node0"}, "127.0.0.1"},
		"guests":      {&plan.VM{}, two, []string{"10.0.0.1 h0 node0", "10.0.0.2 h1 node1"}, "10.0.0.1,10.0.0.2"},
		"a container": {nil, lone, nil, "127.0.0.1"},
		"containers":  {nil, two, []string{"10.0.0.1 h0", "10.0.0.2 h1"}, "10.0.0.1,10.0.0.2"},
	} {
		p := &plan.Plan{VM: c.vm, Volume: "/work"}
		k := &maker{options: Options{Binary: "/bee"}, dir: t.TempDir(), config: plan.Config{Size: len(c.members), Host: core.Host{Name: "h0", Dir: t.TempDir()}}, plan: p, members: c.members}
		env := environment(p, k.config, mpiJob(p, c.members, peercall.Network{}), nil)
		spec, err := k.spec(driver.LocalImage{}, env, nil)
		if err != nil || !slices.Equal(spec.Hosts, c.hosts) || !slices.Contains(env, "BEE_NODE_IPS="+c.ips) {
			t.Errorf("%s: %v, %q, %q", name, err, spec.Hosts, env)
		}
	}
}

// TestNoMountHidesAnother: inputs may lie within each other, and the volume in one.
func TestNoMountHidesAnother(t *testing.T) {
	p := &plan.Plan{Volume: "/data/work", Binds: map[string]string{"/data/a": "2/a", "/data": "0/data", "/etc/s.conf": "1/s.conf", "/data/x": "3/x"}}
	k := &maker{options: Options{Binary: "/bee"}, dir: t.TempDir(), config: plan.Config{Size: 1, Host: core.Host{Name: "h0", Dir: t.TempDir()}}, plan: p}
	spec, err := k.spec(driver.LocalImage{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, m := range spec.Mounts {
		order = append(order, m.Target)
	}
	if !slices.Equal(order, []string{"/data", "/data/a", "/data/work", "/data/x", "/etc/s.conf"}) {
		t.Errorf("mounted in the order %q", order)
	}
}

func TestListenOnANetwork(t *testing.T) {
	ls, err := listen("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	defer ls.Close()
	for _, a := range ls.addrs(nil) {
		if !strings.HasPrefix(a, "127.") {
			t.Errorf("listens on %s", a)
		}
	}
	if _, err := listen("no-such-if0"); !core.IsKind(err, core.Unsupported) {
		t.Errorf("a network that is not here: %v", err)
	}
}

func TestUnreachableHostsAreNamedWithTheirAddresses(t *testing.T) {
	a, err := wire.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Issue("node-1")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := wire.NewIdentity(a.Certificate(), cert, key)
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t.Context(), plan.Config{Rank: 1, Size: 3, Host: core.Host{Name: "beta"}}, Options{}, identity)
	l, err := listen("lo") // a port that is closed again
	if err != nil {
		t.Fatal(err)
	}
	closed := l.addrs(nil)[0]
	l.Close()
	n.known.learn(plan.Plan{}, []peercall.Member{{Name: "alpha", Addr: closed, IP: "127.0.0.1"}, {Rank: 1, Name: "beta", Addr: "127.0.0.7:1", IP: "127.0.0.7"}, {Rank: 2, Name: "gamma", Addr: closed, IP: "127.0.0.1"}}, peercall.Network{})
	err = n.pool.ReachOthers(context.Background())
	if !core.IsKind(err, core.Lost) || !strings.Contains(core.Remedy(err), "firewall") {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"from beta", "127.0.0.7", closed} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not tell %q", err, part)
		}
	}
}

// TestWaysThatAreTried: node 2 of some finds node 4 closed, which is neither the next
// one nor above or below it in the tree.
func TestWaysThatAreTried(t *testing.T) {
	open, err := listen("lo")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	shut, err := listen("lo")
	if err != nil {
		t.Fatal(err)
	}
	closed := shut.addrs(nil)[0]
	shut.Close()
	for _, c := range []struct {
		name  string
		size  int
		vm    *plan.VM
		tried bool
	}{{"few", 5, nil, true}, {"as many as try each other", eachPair, nil, true}, {"many", eachPair + 1, nil, false}, {"those of guests", 5, &plan.VM{}, false}} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t.Context(), plan.Config{Rank: 2, Size: c.size, Host: core.Host{Name: "host2"}}, Options{}, nil)
			n.pool.peers = map[int]*rpc.Peer{0: greeting(t), 3: greeting(t)}
			var members []peercall.Member
			for rank := range c.size {
				members = append(members, peercall.Member{Rank: rank, Name: "host" + strconv.Itoa(rank), Addr: open.addrs(nil)[0]})
			}
			n.known.learn(plan.Plan{VM: c.vm}, members, peercall.Network{})
			if err := n.pool.ReachOthers(t.Context()); err != nil {
				t.Fatalf("all are open: %v", err)
			}
			members[4].Addr = closed
			err := n.pool.ReachOthers(t.Context())
			if !c.tried && err != nil || c.tried && (!core.IsKind(err, core.Lost) || !strings.Contains(err.Error(), "host4 ("+closed+") from host2 (")) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// greeting is the connection to another node, which says that it is there.
func greeting(t *testing.T) *rpc.Peer {
	t.Helper()
	here, there := net.Pipe()
	p, err := rpc.Dial(here, "there", wire.Prompt, nodecall.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	other, err := rpc.NewPeer(there, false, "here", wire.Prompt, nodecall.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); other.Close() })
	s := rpc.NewServer(nil)
	rpc.Handle(s, peercall.CallHello, func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) { return rpc.None{}, nil })
	go other.Serve(t.Context(), s, nodeOf(2))
	return p
}

// A host that runs no containers reports why, where that is asked; one whose answer is
// another is none of those.
func TestWhyAHostRunsNoContainers(t *testing.T) {
	cannot := &core.Error{Kind: core.Unsupported, Err: errors.New("no namespaces")}
	for name, c := range map[string]struct {
		asked bool
		err   error
		want  string
	}{
		"it runs them": {true, nil, ""},
		"it runs none": {true, cannot, cannot.Error()},
		"it is slow":   {true, &core.Error{Kind: core.Transient}, ""},
		"not asked":    {false, cannot, ""},
	} {
		n := newNode(t.Context(), plan.Config{TryRuntime: c.asked}, Options{Runtime: func(context.Context, string) (driver.Runtime, string, error) { return nil, "", c.err }}, nil)
		if got := n.Report(t.Context()).NoRuntime; got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What a guest has is reported, not what its host has.
func TestANodesCoresAreItsGuests(t *testing.T) {
	n := newNode(t.Context(), plan.Config{Host: core.Host{Name: "a", Slots: 7}}, Options{}, nil)
	n.known.learn(plan.Plan{}, []peercall.Member{{Name: "a", Cores: 2}}, peercall.Network{})
	if r := n.EndContainer(0); r.Cores != 2 {
		t.Errorf("%+v", r)
	}
}

// A disk of a guest that is full is reported.
func TestAFullDisk(t *testing.T) {
	if full(t.TempDir()) {
		t.Error("a directory with room counts as full")
	}
	testkit.RequireRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if !full(dir) {
		t.Error("a full disk does not count as one")
	}
}
