package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// box is the one container of this node.
type box struct {
	driver.Container
	runtime string
	why     string
	env     []string // of everything that runs in it
	workdir string
	release func()            // of the image
	rdma    []core.RDMADevice // that it has
	notes   []string          // for the user, about its host
}

// runBox starts this node's container and watches over it.
func (n *node) runBox(ctx context.Context, runtimeName string) (*box, error) {
	plan, members, network := n.known.all()
	b, err := n.startBox(ctx, &plan, members, network, runtimeName)
	if err != nil {
		return nil, err
	}
	n.current.set(b)
	go n.watchBox(n.life, b) // as long as the container, not the call
	n.settle()
	return b, nil
}

// While it starts, a node collects garbage once it has some 16 MB (startGC, a
// percentage of 4), most never. After settleTime the memory that the start took is
// released: not so early that it costs short jobs time, or the launch of many nodes
// on one machine.
const (
	startGC    = 400
	settleTime = 5 * time.Second
)

// settle makes the node small, for the memory is the job's.
func (n *node) settle() {
	time.AfterFunc(settleTime, func() {
		debug.SetGCPercent(40)
		debug.FreeOSMemory()
	})
}

// startBox makes the image ready and starts this node's container.
func (n *node) startBox(ctx context.Context, p *plan.Plan, members []member, network networkInfo, runtimeName string) (*box, error) {
	rt, why, release, err := n.chooseRuntime(ctx, p, runtimeName)
	if err != nil {
		return nil, err
	}
	image := driver.LocalImage{Image: p.Image}
	switch rt.Needs() {
	case driver.Archive:
		image.Archive, image.ArchiveTag, err = n.images.Archive(ctx, p.Image.ID)
	case driver.FileSystem:
		image.FileSystem, image.ArchiveTag, image.Config, err = n.images.FileSystem(ctx, p.Image.ID)
	case driver.Tree:
		var free func()
		if image.Tree, free, err = n.images.Tree(ctx, p.Image.ID); err == nil {
			release = both(release, free)
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	b := &box{runtime: rt.Info().Name, why: why, release: release, workdir: workdirOf(p)}
	user, err := n.imageUser(ctx, p, rt)
	if err != nil {
		release()
		return nil, err
	}
	if err := rt.Prepare(ctx, image); err != nil {
		release()
		return nil, unusable(ctx, p, rt, err)
	}
	job := n.mpiJob(p, members, network)
	if err := mpi.WriteHostFiles(plan.RunDir(n.config.Host.Dir, n.config.Rank), job); err != nil {
		release()
		return nil, err
	}
	b.env = environment(p, n.config, job, user)
	mounts, shut, err := openMounts(ctx, p)
	if err != nil {
		release()
		return nil, err
	}
	defer shut()
	spec, err := n.containerSpec(p, members, image, b.env, mounts)
	if err != nil {
		release()
		return nil, err
	}
	spec.User = user
	if spec.Dirs, err = n.images.Missing(ctx, p.Image, ownDirs(p, spec.Mounts)); err != nil {
		release()
		return nil, err
	}
	if err := n.addRDMA(ctx, p, rt, b, &spec); err != nil {
		release()
		return nil, err
	}
	spec.TimerSlack = mpi.TimerSlack(job)
	if m := rt.VM(); m != nil {
		n.current.setBooting(func() (string, error) { return m.BootConsole(spec.StateDir) })
	}
	if p.Restore {
		b.Container, err = n.restoreBox(ctx, rt, spec)
	} else {
		b.Container, err = rt.Start(ctx, spec)
	}
	if err != nil {
		release()
		return nil, unusable(ctx, p, rt, unmountable(ctx, rt, spec, err))
	}
	return b, nil
}

// unusable makes an error of kind Unsupported of one for which a runtime gave no reason,
// where it turns out that it starts no container at all on this host.
func unusable(ctx context.Context, plan *plan.Plan, rt driver.Runtime, err error) error {
	if plan.VM != nil || ctx.Err() != nil || core.KindOf(err) != core.Permanent {
		return err
	}
	facts, probeErr := rt.Probe(ctx)
	if probeErr != nil || facts.Usable {
		return err
	}
	return &core.Error{Kind: core.Unsupported, Err: err, Remedy: facts.Remedy}
}

// imageUser gives whom the image wants the processes to be, if the job wants it too.
func (n *node) imageUser(ctx context.Context, plan *plan.Plan, rt driver.Runtime) (*core.Account, error) {
	if plan.Root || plan.CallerIDs {
		return nil, nil
	}
	user, err := n.images.Account(ctx, plan.Image)
	if err != nil || user == nil {
		return nil, err
	}
	why := ""
	switch {
	case !rt.Info().MapsUsers:
		why = "with " + rt.Info().Name + ", processes have your own ids, as files in the volume would not be yours otherwise"
	case plan.VM != nil && plan.Seccomp:
		why = "in virtual machines, processes have your own ids with `seccomp:`, which refuses what would change them"
	default:
		return user, nil
	}
	if n.head != nil {
		n.head.journal.say(core.PhaseStart, fmt.Sprintf("note: the image's USER %s is left out: %s", plan.Image.Config.User, why))
	}
	return nil, nil
}

func both(a, b func()) func() { return func() { a(); b() } }

func workdirOf(plan *plan.Plan) string {
	return plan.Image.Config.Workdir(plan.Workdir, plan.Volume)
}

// ownDirs are the directories that the job's container has whatever its image holds: the
// working directory and each VOLUME, but for those that mounts bring, the kernel's and
// ours.
func ownDirs(plan *plan.Plan, mounts []driver.Mount) []string {
	taken := []string{"/proc", "/sys", "/dev", "/.bee"}
	for _, m := range mounts {
		taken = append(taken, path.Clean(m.Target))
	}
	var dirs []string
	for _, dir := range append([]string{workdirOf(plan)}, plan.Image.Config.Volumes...) {
		dir = path.Join("/", dir)
		within := slices.ContainsFunc(taken, func(t string) bool { return dir == t || strings.HasPrefix(dir, t+"/") })
		if dir != "/" && !within {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func (n *node) containerSpec(p *plan.Plan, members []member, image driver.LocalImage, env []string, mounts []driver.Mount) (driver.ContainerSpec, error) {
	c := n.config
	dir := plan.NodeDir(c.Host.Dir, c.Rank)
	binary := n.Binary
	if binary == "" {
		var err error
		if binary, err = os.Executable(); err != nil {
			return driver.ContainerSpec{}, err
		}
	}
	s := driver.ContainerSpec{
		Owner: c.Owner, Name: fmt.Sprintf("bee-%s-%d-%d", c.Owner.Run, c.Owner.Attempt, c.Rank), Image: image,
		Hostname: c.Host.Name, Env: public(env, p.Secrets), Root: p.Root,
		Mounts:   []driver.Mount{{Source: plan.VolumeDir(c.Host.Dir), Target: p.Volume}},
		StateDir: filepath.Join(dir, "state"), DiskScratch: p.DiskScratch, Seccomp: p.Seccomp, Unfiltered: p.Unfiltered,
		Binary: binary, RunDir: plan.RunDir(c.Host.Dir, c.Rank), GPUs: p.GPUs,
	}
	if p.HoldsVolume() && c.Rank > 0 { // what its guest holds is its own
		s.Mounts[0].Source = n.machine.heldVolume()
		if err := os.MkdirAll(s.Mounts[0].Source, 0o700); err != nil {
			return s, err
		}
	}
	if p.Memory > 0 {
		s.Env = append(s.Env, core.MemoryVariable+"="+strconv.FormatInt(p.Memory, 10))
	}
	if n.notices != nil {
		s.Env = append(s.Env, core.NoticeVariable+"=1")
	}
	for target, source := range p.Binds {
		s.Mounts = append(s.Mounts, driver.Mount{Source: filepath.Join(plan.InputsDir(c.Host.Dir), source), Target: target})
	}
	s.Mounts = append(s.Mounts, mounts...)
	if err := makeMountPoints(s.Mounts[0].Source, p); err != nil {
		return s, err
	}
	// One within another comes after it, which would hide it.
	slices.SortFunc(s.Mounts, func(a, b driver.Mount) int { return strings.Compare(a.Target, b.Target) })
	for _, m := range members {
		if m.IP == "" && p.VM == nil { // alone, and the host's own files name it
			continue
		}
		line := m.address() + " " + m.Name
		if p.VM != nil { // guests go by the same names on every site
			line += " node" + strconv.Itoa(m.Rank)
		}
		s.Hosts = append(s.Hosts, line)
	}
	return s, os.MkdirAll(s.StateDir, 0o700)
}

func (n *node) mpiJob(plan *plan.Plan, members []member, network networkInfo) mpi.Job {
	job := mpi.Job{RunDir: insideRun, Agent: "/.bee/rsh", Network: network.CIDR, Interface: network.Interface, Guests: plan.VM != nil, Root: plan.Root || os.Geteuid() == 0}
	for _, m := range members {
		job.Hosts = append(job.Hosts, mpi.Host{Name: m.Name, IP: m.address(), Slots: m.Slots, CPUs: m.Processors, Machine: m.Machine})
	}
	return job
}

// watchBox reports to the head when this node's container dies under it.
func (n *node) watchBox(ctx context.Context, b *box) {
	exit, err := b.Wait(ctx)
	if err != nil {
		return
	}
	if n.current.get() != b { // it was ended on purpose
		return
	}
	why := fmt.Sprintf("the container on %s ended by itself (code %d); was it killed?", n.config.Host.Name, exit.Code)
	if kills := killsNow().since(n.kills).with(b); kills.own > 0 {
		why = fmt.Sprintf("the container on %s ended, as the kernel killed %d of its processes for want of memory", n.config.Host.Name, kills.own)
	}
	if g := b.Guest(); g != nil {
		why = fmt.Sprintf("the virtual machine on %s, or the container in it, ended by itself: %s", n.config.Host.Name, g.Ended())
	}
	if n.head != nil {
		n.head.hosts.fail(0, &core.Error{Kind: core.Lost, Err: errors.New(why), Remedy: "`bee logs --node 0 " + n.config.Owner.Run + "` shows what its node wrote. A run with `checkpoint:` continues by itself; another is run again."})
		return
	}
	rpc.Call(ctx, n.pool.headConn(), callFailed, failure{n.config.Rank, rpc.Fail(&core.Error{Kind: core.Lost, Err: errors.New(why)})}) //nolint:errcheck // a lost head ends us anyway
}

// endBox stops the container, once, and reports what it used.
func (n *node) endBox(grace time.Duration) core.NodeReport {
	c := n.config
	r := core.NodeReport{Rank: c.Rank, Host: c.Host.Name, Cores: cores(c)}
	b := n.current.drop()
	_, members, _ := n.known.all()
	for _, m := range members {
		if m.Rank == c.Rank {
			r.Addr, r.Cores = m.IP, m.Cores // a guest's are its own
		}
	}
	if b == nil {
		return r
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace+10*time.Second)
	defer cancel()
	if b.Guest() != nil { // before its disks go
		r.Full = full(filepath.Join(plan.NodeDir(c.Host.Dir, c.Rank), "state"))
	}
	kills := killsNow().since(n.kills).with(b)
	r.MemoryKills, r.HostMemoryKills = kills.own, kills.host
	if bounded, is := b.Container.(driver.Bounded); is {
		if err := bounded.Unbounded(); err != nil {
			r.MemoryUnlimited = core.Printable(err.Error(), maxText)
		}
	}
	if err := b.Stop(ctx, grace); err != nil {
		n.Log.Warn("stop container", "err", err)
	}
	if exit, err := b.Wait(ctx); err == nil {
		r.UserTime, r.SystemTime, r.MaxRSS = exit.UserTime, exit.SystemTime, exit.MaxRSS
	}
	r.Runtime, r.RDMA = b.runtime, b.rdma
	b.release()
	return r
}
