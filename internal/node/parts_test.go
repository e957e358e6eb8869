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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/node/journal"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// All guests on a machine share its memory, of which each node saw a part taken.
func TestGuestsWantMemory(t *testing.T) {
	const gib = 1 << 30
	here, there := driver.Memory{Free: 4 * gib, All: 9 * gib}, driver.Memory{Free: 3 * gib, All: 9 * gib}
	for each, want := range map[int64]string{1 * gib: "", 2 * gib: "busy", 4 * gib: "busy", 5 * gib: "unsupported"} {
		all := choices{
			plan:   &plan.Plan{VM: &plan.VM{Memory: each}, Names: []string{"a", "b"}},
			infos:  []joinRequest{{Machine: "m", Memory: here}, {Machine: "m", Memory: there}},
			nameOf: rankName,
		}
		err, kind := all.enoughMemory(), ""
		if err != nil {
			kind = core.KindOf(err).String()
		}
		if kind != want || err != nil && core.Remedy(err) == "" {
			t.Errorf("two guests of %d GiB each: %v, which is %q", each/gib, err, kind)
		}
		if want == "busy" != strings.Contains(core.Remedy(err), "`wait: ") {
			t.Errorf("two guests of %d GiB each: %q", each/gib, core.Remedy(err))
		}
	}
}

// Who holds what is wanted is named, where its end would help.
// TestAGuestThatBootsHasAConsole: a user who wonders why it does not come up looks there.
func TestAGuestThatBootsHasAConsole(t *testing.T) {
	c := &current{}
	if _, ok := c.bootConsole(); ok {
		t.Error("there is a console without a machine")
	}
	c.booting = func() (string, error) { return "kernel panic", nil }
	if text, ok := c.bootConsole(); !ok || text != "kernel panic" {
		t.Errorf("got %q, %t", text, ok)
	}
	c.set(&container{}) // it is up, and reports by itself
	if _, ok := c.bootConsole(); ok {
		t.Error("a guest that is up is taken for one that boots")
	}
}

func TestWhoHoldsMemoryIsNamed(t *testing.T) {
	const mib = 1 << 20
	m := driver.Memory{Free: 100 * mib, All: 900 * mib, Reserved: []driver.Reserved{{Run: "old", Bytes: 700 * mib}}}
	if err := m.Enough("h", 1, 200*mib); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "run old has reserved 700 MiB") || !strings.Contains(core.Remedy(err), "wait: ") {
		t.Errorf("it would fit: %v", err)
	}
	if err := m.Enough("h", 1, 1000*mib); !core.IsKind(err, core.Unsupported) || strings.Contains(err.Error(), "old") {
		t.Errorf("it would never fit: %v", err)
	}
}

// Machines that are only for hosts which run no containers are taken if one of them
// runs none, which is reported to people; a host whose answer is another is none of those.
func TestMachinesAreTakenWhereAHostRunsNoContainers(t *testing.T) {
	cannot := &core.Error{Kind: core.Unsupported, Err: errors.New("no namespaces")}
	for name, c := range map[string]struct {
		demand   bool
		tries    [2]error
		taken    bool
		reported string
	}{
		"all run them":         {demand: true},
		"the second runs none": {demand: true, tries: [2]error{nil, cannot}, taken: true, reported: "using virtual machines, as b can run no containers itself: "},
		"one is slow":          {demand: true, tries: [2]error{&core.Error{Kind: core.Transient}, nil}},
		"they are wanted":      {taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			events := filepath.Join(t.TempDir(), "events")
			j, err := journal.New(events)
			if err != nil {
				t.Fatal(err)
			}
			hs := &hosts{plan: &plan.Plan{VM: &plan.VM{OnDemand: c.demand}, Names: []string{"a", "b"}}, journal: j}
			for _, err := range c.tries {
				n := &node{config: plan.Config{TryRuntime: c.demand}}
				n.Runtime = func(context.Context, string) (driver.Runtime, string, error) { return nil, "", err }
				hs.infos = append(hs.infos, joinRequest{NoRuntime: n.noRuntime(t.Context())})
			}
			hs.choices().decideVM()
			text, err := os.ReadFile(events)
			if err != nil {
				t.Fatal(err)
			}
			if (hs.plan.VM != nil) != c.taken || !strings.Contains(string(text), c.reported) || (len(text) > 0) != (c.reported != "") {
				t.Errorf("%+v, and told %s", hs.plan.VM, text)
			}
		})
	}
}

// All guests are attached in one way, which a word in the Beefile settles.
func TestOneHostWithoutRingsHasAllUseSockets(t *testing.T) {
	for name, c := range map[string]struct {
		printed, hinders, want string
	}{
		"open":             {"", "", fabric.Rings},
		"open, hindered":   {"", "no vhost-user", fabric.Sockets},
		"settled":          {fabric.Rings, "no vhost-user", fabric.Rings},
		"settled, sockets": {fabric.Sockets, "", fabric.Sockets},
	} {
		t.Run(name, func(t *testing.T) {
			events := filepath.Join(t.TempDir(), "events")
			j, err := journal.New(events)
			if err != nil {
				t.Fatal(err)
			}
			hs := &hosts{plan: &plan.Plan{VM: &plan.VM{NIC: c.printed}, Names: []string{"a", "b"}}, infos: []joinRequest{{}, {NoRings: c.hinders}}, journal: j}
			hs.choices().decideNIC()
			text, err := os.ReadFile(events)
			if err != nil {
				t.Fatal(err)
			}
			if reported := strings.Contains(string(text), "on b the switch"); hs.plan.VM.NIC != c.want || reported != (c.printed == "" && c.hinders != "") {
				t.Errorf("%s, and told %s", hs.plan.VM.NIC, text)
			}
		})
	}
}

// What a guest has is reported, not what its host has.
func TestANodesCoresAreItsGuests(t *testing.T) {
	for want, vm := range map[int]*plan.VM{2: {CPUs: 2}, 7: {}, 6: {Sockets: 3, Threads: 2}, 8: {Sockets: 4, Threads: 2}} {
		hs := &hosts{plan: &plan.Plan{VM: vm, Names: []string{"a"}}, infos: []joinRequest{{Cores: 7}}}
		n := newNode(t.Context(), plan.Config{Host: core.Host{Name: "a", Slots: 7}}, Options{}, nil)
		members := hs.choices().members(nil)
		n.known.learn(plan.Plan{}, members, networkInfo{})
		if r := n.endContainer(0); r.Cores != want || members[0].Slots != want {
			t.Errorf("%+v: %+v of %+v", vm, r, members)
		}
	}
}

// Guests that start slowly are reported, with what they are and for how long.
func TestSlowGuestsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.New(filepath.Join(t.TempDir(), "events"))
		if err != nil {
			t.Fatal(err)
		}
		h := &head{n: &node{config: plan.Config{Size: 2}}, journal: j}
		h.n.emulates.Store(true)
		var up atomic.Int32
		stop := h.reportBoots(&up)
		time.Sleep(newsPause + time.Second)
		up.Add(1)
		time.Sleep(newsPause)
		stop()
		time.Sleep(time.Hour)
		for i, want := range []string{"starting virtual machines in software emulation: 0 of 2 ready", "starting virtual machines in software emulation: 1 of 2 ready"} {
			if len(eventsOf(j)) != 2 || eventsOf(j)[i].Message != want || eventsOf(j)[i].Waited != time.Duration(i+1)*newsPause {
				t.Errorf("the history has %+v", eventsOf(j))
			}
		}
	})
}

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
		nonce, err := n.leaveNonce()
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

func TestExecTarget(t *testing.T) {
	members := []member{{Rank: 0, Name: "a", IP: "10.0.0.1"}, {Rank: 1, Name: "b", IP: "10.0.0.2"}}
	for _, c := range []struct {
		name string
		r    nodecall.ExecRequest
		want int
		ok   bool
	}{
		{"by rank", nodecall.ExecRequest{Rank: 1}, 1, true},
		{"by name", nodecall.ExecRequest{Host: "b"}, 1, true},
		{"by address", nodecall.ExecRequest{Host: "10.0.0.1"}, 0, true},
		{"this host", nodecall.ExecRequest{Host: "localhost"}, 1, true},
		{"a stranger", nodecall.ExecRequest{Host: "c"}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := execTarget(c.r, members, 1)
			if got != c.want || (err == nil) != c.ok {
				t.Errorf("got %d, %v", got, err)
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
	lone, two := []member{{Name: "h0"}}, []member{{Name: "h0", IP: "10.0.0.1"}, {Rank: 1, Name: "h1", IP: "10.0.0.2"}}
	for name, c := range map[string]struct {
		vm      *plan.VM
		members []member
		hosts   []string
		ips     string
	}{
		"a guest":     {&plan.VM{}, lone, []string{"127.0.0.1 h0 node0"}, "127.0.0.1"},
		"guests":      {&plan.VM{}, two, []string{"10.0.0.1 h0 node0", "10.0.0.2 h1 node1"}, "10.0.0.1,10.0.0.2"},
		"a container": {nil, lone, nil, "127.0.0.1"},
		"containers":  {nil, two, []string{"10.0.0.1 h0", "10.0.0.2 h1"}, "10.0.0.1,10.0.0.2"},
	} {
		p := &plan.Plan{VM: c.vm, Volume: "/work"}
		k := &maker{options: Options{Binary: "/bee"}, config: plan.Config{Size: len(c.members), Host: core.Host{Name: "h0", Dir: t.TempDir()}}, plan: p, members: c.members}
		env := environment(p, k.config, mpiJob(p, c.members, networkInfo{}), nil)
		spec, err := k.spec(driver.LocalImage{}, env, nil)
		if err != nil || !slices.Equal(spec.Hosts, c.hosts) || !slices.Contains(env, "BEE_NODE_IPS="+c.ips) {
			t.Errorf("%s: %v, %q, %q", name, err, spec.Hosts, env)
		}
	}
}

// TestNoMountHidesAnother: inputs may lie within each other, and the volume in one.
func TestNoMountHidesAnother(t *testing.T) {
	p := &plan.Plan{Volume: "/data/work", Binds: map[string]string{"/data/a": "2/a", "/data": "0/data", "/etc/s.conf": "1/s.conf", "/data/x": "3/x"}}
	k := &maker{options: Options{Binary: "/bee"}, config: plan.Config{Size: 1, Host: core.Host{Name: "h0", Dir: t.TempDir()}}, plan: p}
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
	n.known.learn(plan.Plan{}, []member{{Name: "alpha", Addr: closed, IP: "127.0.0.1"}, {Rank: 1, Name: "beta", Addr: "127.0.0.7:1", IP: "127.0.0.7"}, {Rank: 2, Name: "gamma", Addr: closed, IP: "127.0.0.1"}}, networkInfo{})
	err = n.pool.reachOthers(context.Background())
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
			var members []member
			for rank := range c.size {
				members = append(members, member{Rank: rank, Name: "host" + strconv.Itoa(rank), Addr: open.addrs(nil)[0]})
			}
			n.known.learn(plan.Plan{VM: c.vm}, members, networkInfo{})
			if err := n.pool.reachOthers(t.Context()); err != nil {
				t.Fatalf("all are open: %v", err)
			}
			members[4].Addr = closed
			err := n.pool.reachOthers(t.Context())
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
	rpc.Handle(s, callHello, func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) { return rpc.None{}, nil })
	go other.Serve(t.Context(), s, nodeOf(2)) //nolint:errcheck // it ends with the test
	return p
}

// TestFullDisksOfGuests: the job sees errors of a disk only, and its user has to know why.
func TestFullDisksOfGuests(t *testing.T) {
	if full(t.TempDir()) {
		t.Error("a directory with room counts as full")
	}
	if got := fullDisks([]core.NodeReport{{Host: "a"}, {Host: "b"}}); got != "" {
		t.Errorf("without a reason: %s", got)
	}
	if got := fullDisks([]core.NodeReport{{Host: "a", Full: true}, {Host: "b"}, {Host: "c", Full: true}}); !strings.Contains(got, "on a, c,") || !strings.Contains(got, "`scratch:`") {
		t.Errorf("two of three: %s", got)
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

// eventsOf are the events that a journal has.
func eventsOf(j *journal.Journal) []plan.Event {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var all []plan.Event
	j.Follow(ctx, 0, func(e plan.Event) error { all = append(all, e); return nil }) //nolint:errcheck // it ends with its context
	return all
}
