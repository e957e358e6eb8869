// Package node is `bee node`: the process that BEE runs on every host of an
// attempt. Node 0, the head, carries the attempt out: it waits for the others,
// has image and volume spread, containers started, the job's commands run, and
// leaves a result. The others start their container and do what they are asked.
// Neither needs the machine that submitted the job.
//
// A node ends when the attempt is over, or when it loses the head (or, as the
// head, any other): nothing of it then stays on its host. It knows runtimes by
// their interface, and nothing of providers.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/energy"
	"github.com/bee-hpc/bee/internal/mountns"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/head"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/wire"
)

// Options are what a node is built with.
type Options struct {
	// Runtime chooses the runtime of a name ("auto" for the best that works),
	// with the reason for people.
	Runtime func(ctx context.Context, name string) (driver.Runtime, string, error)
	// OpenImages opens the image cache of this host.
	OpenImages func(dir string) (Images, error)
	// Machine makes the runtime that puts a virtual machine between.
	Machine func(ctx context.Context, m Machine) (driver.Runtime, error)
	// FreeMemory is what this host can give virtual machines: see driver.Memory.
	// nil: it is unknown.
	FreeMemory func(run string) driver.Memory
	// NoRings reports why a guest of this host cannot have the switch's network device;
	// "": it can. nil: it is not asked.
	NoRings func(ctx context.Context) string
	// Burst mounts a burst buffer for an attempt on this host; nil: there are none. keys gives those of its bucket, as
	// they are now; nil: the host has some itself, or relay connects with the submitting machine, which has.
	Burst func(ctx context.Context, b plan.Burst, of core.Owner, keys func() *core.BucketKeys, relay func(ctx context.Context) (io.ReadWriteCloser, error)) (head.Burst, error)
	// BurstAfar mounts one here whose I/O process is on the head's host. dial connects with that.
	BurstAfar func(ctx context.Context, b plan.Burst, of core.Owner, rank int, id string, dial func(ctx context.Context) (io.ReadWriteCloser, error)) (BurstClient, error)
	// RDMA is where this host's RDMA devices are looked for.
	RDMA rdma.Host
	// Energy is the directory of the counters of this host's energy; empty: that of the kernel.
	Energy string
	// GPUs begins to measure what so many GPUs of this host use, until the context ends; nil:
	// that is not known.
	GPUs func(ctx context.Context, n int) gpuUse
	// notices are the site's, that it takes the host back; nil: it gives none.
	notices <-chan os.Signal
	// hostGroup is that of the nodes of this process.
	hostGroup *hostGroup
	// Binary is the bee binary that containers get; empty: this process's own.
	Binary string
	Log    *slog.Logger
}

// Images is what a node needs of the image cache.
type Images interface {
	Has(id string) bool
	// Tree gives the unpacked image until release is called.
	Tree(ctx context.Context, id string) (path string, release func(), err error)
	// Account gives whom the image's USER means, or nil: nobody, or root.
	Account(ctx context.Context, i core.Image) (*core.Account, error)
	// Missing gives the directories, by paths inside, that the image lacks.
	Missing(ctx context.Context, i core.Image, dirs []string) ([]string, error)
	// Kept names a directory for what is kept with the image.
	Kept(id string) string
	// Archive gives a docker-archive and the tag in it.
	Archive(ctx context.Context, id string) (path, tag string, err error)
	// FileSystem gives an EROFS image, the tag for it, and its configuration.
	FileSystem(ctx context.Context, id string) (path, tag string, config []byte, err error)
	ExportFlat(ctx context.Context, id string, w io.Writer) error
	ImportFlat(ctx context.Context, r io.Reader) error
}

// Main is `bee node`: it reads its configuration from standard input and
// returns when the attempt is over. Input that ends without a configuration is no
// error: the launching process was ended first. With an argument, Main has been started by itself, in namespaces
// of its own.
func Main(o Options, args []string) int {
	var err error
	if len(args) > 0 {
		err = mountns.Enter()
	}
	if err == nil {
		err = pid1.Fresh()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bee node: %v\n", err)
		return 1
	}
	var c plan.Config
	if err = json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		if errors.Is(err, io.EOF) {
			return 0
		}
		fmt.Fprintf(os.Stderr, "bee node: read configuration: %v\n", err)
		return 1
	}
	if len(args) == 0 && c.OwnMounts && os.Geteuid() != 0 {
		if code, ended := ownMounts(c, o); ended {
			return code
		}
	}
	debug.SetMemoryLimit(64 << 20 * int64(1+len(c.Siblings))) // it idles beside programs that want the memory
	debug.SetGCPercent(startGC)                               // until settle
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if os.Getenv(core.NoticeVariable) != "" {
		ends = ends[1:]
		notices := make(chan os.Signal, 4)
		signal.Notify(notices, syscall.SIGTERM)
		o.notices = notices
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	pid1.Outlive()
	if RunAll(ctx, c, o) != nil {
		return 1 // the log has it
	}
	return 0
}

// node is a running node.
type node struct {
	Options
	config   plan.Config
	life     context.Context // the node's own
	known    *known
	pool     *pool
	links    *links
	verbs    *verbs
	accept   *acceptor
	images   Images
	head     *head.Head // on rank 0
	spreads  *spread.Tree
	current  *container.Current
	machine  *container.Machine
	emulates atomic.Bool   // whether its virtual machine's processors are emulated
	memory   driver.Memory // of the host for virtual machines, at first
	kills    memoryKills   // at first
	meter    atomic.Pointer[energy.Meter]
	use      *useMeter
	group    int // the lowest rank that sees this node's Host.Dir
	// mounted is where the run's volume is mounted; "": it is VolumeDir.
	mounted string
	afar    afar
	relay   bucketRelay
	keys    *bucketKeys
	hang    hang

	serving sync.WaitGroup // of calls that are to see the end
}

func newNode(life context.Context, c plan.Config, o Options, identity *wire.Identity) *node {
	k := &known{}
	n := &node{
		Options: o, config: c, life: life, known: k, current: container.NewCurrent(c.Host.Name), kills: killsNow(),
		pool: &pool{config: c, identity: identity, known: k, peers: map[int]*rpc.Peer{}},
	}
	n.use = newUseMeter(n.current)
	n.keys = newBucketKeys(c.BucketKeys)
	n.links = &links{config: c, log: o.Log, life: life, known: k, pool: n.pool, hostGroup: o.hostGroup, report: n.report}
	n.verbs = &verbs{config: c, log: o.Log, life: life, known: k, pool: n.pool}
	n.spreads = spread.New(life, c.Rank, c.Size, plan.NodeDir(c.Host.Dir, c.Rank), n.pool.Peer)
	n.machine = container.NewMachine(c, n.current, k.job, n.pool.Peer)
	n.accept = &acceptor{config: c, log: o.Log, identity: identity, links: n.links, verbs: n.verbs}
	return n
}

// Run is a node's whole life. However a head ends, it leaves a result; another
// node reports to the head what kept it from its work.
func Run(ctx context.Context, c plan.Config, o Options) error {
	err := run(ctx, c, o)
	path := plan.ResultPath(c.Host.Dir)
	if err == nil || c.Rank != 0 {
		return err
	}
	if _, serr := os.Stat(path); serr == nil {
		return err
	}
	return errors.Join(err, head.WriteResult(path, head.Failed(c, err)))
}

func run(ctx context.Context, c plan.Config, o Options) error {
	if c.Version != plan.Version {
		return &core.Error{
			Kind: core.Unsupported, Op: "start node", Err: fmt.Errorf("the controller speaks version %d, this node %d", c.Version, plan.Version),
			Remedy: "Use the same version of bee everywhere.",
		}
	}
	// Who is asked to end still has to say so: connections outlive the order.
	if o.hostGroup == nil {
		o.hostGroup = newHostGroup()
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	var identity *wire.Identity
	var err error
	if c.Size > 1 {
		if identity, err = wire.NewIdentity(c.CA, c.Cert, c.Key); err != nil {
			return err
		}
	}
	n := newNode(life, c, o, identity)
	if o.FreeMemory != nil {
		n.memory = o.FreeMemory(c.Owner.Run)
	}
	for _, dir := range []string{plan.RunDir(c.Host.Dir, c.Rank), plan.VolumeDir(c.Host.Dir), plan.InputsDir(c.Host.Dir)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make run directory: %w", err)
		}
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() { // a link would have the job write elsewhere
			return fmt.Errorf("make run directory: %s is no directory (%v)", dir, err) //nolint:errorlint // where it is a link, there is none
		}
	}
	core.BestEffort(os.Remove(plan.VerbsSocket(c.Host.Dir, c.Rank))) // of an attempt before on this host; mostly there is none
	local, err := wire.ListenUnix(plan.SocketPath(c.Host.Dir, c.Rank))
	if err != nil {
		return fmt.Errorf("listen for the controller: %w", err)
	}
	defer local.Close()
	agents, err := wire.ListenUnix(filepath.Join(plan.RunDir(c.Host.Dir, c.Rank), plan.SocketName))
	if err != nil {
		return fmt.Errorf("listen for launch agents: %w", err)
	}
	defer agents.Close()
	defer n.links.leave()
	defer n.verbs.close()
	defer n.unmountAfar()
	defer n.EndContainer(2 * time.Second)
	if c.Rank == 0 {
		if n.head, err = n.newHead(); err != nil {
			return err
		}
	}
	n.accept.server = n.newServer()
	go n.accept.acceptAgents(life, agents)
	var ports listeners
	n.images, err = o.OpenImages(c.Host.Cache)
	if err == nil && c.Size > 1 {
		ports, err = listen(c.Network)
	}
	if err != nil && n.head != nil {
		n.head.Refuse(err)
		return err
	}
	if err == nil && c.Size > 1 {
		defer ports.Close()
		for _, l := range ports {
			go n.accept.acceptPeers(life, l)
		}
	}
	if n.head != nil {
		addrs := ports.addrs(c.Host.Addrs)
		n.head.SetAddrs(addrs)
		n.hostGroup.settle(addrs)
		go n.head.WatchNotice(life)
		go n.watchNotice(life)
		go n.accept.acceptControl(life, local)
		n.head.Run(ctx)
		n.drain(3 * time.Second) // let those who watch see the end
		return nil
	}
	go n.watchNotice(life)
	go n.accept.acceptControl(life, local)
	return n.follow(ctx, ports, err)
}

// drain waits until those who watch or read output have got it all, and each call has its
// answer: one that ends the attempt went well.
func (n *node) drain(atMost time.Duration) {
	done := make(chan struct{})
	go func() { n.serving.Wait(); <-n.accept.server.Settled(); close(done) }()
	select {
	case <-done:
	case <-time.After(atMost):
	}
}
