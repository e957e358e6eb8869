package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/reservation"
)

// maker makes this node's container, and the machine around it, of what the head has
// settled and this host has.
type maker struct {
	options Options
	mounted string // where the run's volume is mounted; "": it is VolumeDir
	dir     string // of the container's state and of what it sees of its node
	suffix  string // of the container's name
	config  plan.Config
	plan    *plan.Plan
	members []peercall.Member
	network peercall.Network
	group   int // see beginReply

	images   Images
	memory   driver.Memory // of the host for virtual machines, at first
	links    *links
	verbs    *verbs
	machine  *container.Machine
	current  *container.Current
	emulates *atomic.Bool      // whether the machine's processors are emulated
	say      func(text string) // to the user, if this is the head's node
}

// start makes the image ready and starts this node's container.
func (k *maker) start(ctx context.Context, runtimeName string) (*container.Container, error) {
	p := k.plan
	rt, why, release, err := k.runtime(ctx, runtimeName)
	if err != nil {
		return nil, err
	}
	if err := sees(rt); err != nil {
		release()
		return nil, err
	}
	image := driver.LocalImage{Image: p.Image}
	switch rt.Needs() {
	case driver.Archive:
		image.Archive, image.ArchiveTag, err = k.images.Archive(ctx, p.Image.ID)
	case driver.FileSystem:
		image.FileSystem, image.ArchiveTag, image.Config, err = k.images.FileSystem(ctx, p.Image.ID)
	case driver.Tree:
		var free func()
		if image.Tree, free, err = k.images.Tree(ctx, p.Image.ID); err == nil {
			release = both(release, free)
		}
	}
	if err != nil {
		release()
		return nil, err
	}
	if rt.Info().HostPrograms {
		host := *p
		host.Image.Config = core.ImageConfig{Env: hostVariables()}
		p = &host
	}
	b := &container.Container{Runtime: rt.Info().Name, Why: why, Release: release, Workdir: workdirOf(p), HostPrograms: rt.Info().HostPrograms}
	user, err := k.imageUser(ctx, rt)
	if err != nil {
		release()
		return nil, err
	}
	if err := rt.Prepare(ctx, image); err != nil {
		release()
		return nil, unusable(ctx, p, rt, err)
	}
	job := mpiJob(p, k.members, k.network)
	if err := mpi.WriteHostFiles(k.runDir(), job); err != nil {
		release()
		return nil, err
	}
	b.Env = environment(p, k.config, job, user)
	mounts, shut, err := openMounts(ctx, p)
	if err != nil {
		release()
		return nil, err
	}
	defer shut()
	spec, err := k.spec(image, b.Env, mounts)
	if err != nil {
		release()
		return nil, err
	}
	if p.Cores > 0 {
		var free func()
		spec.Env, free = limitCores(spec.Env, p.Cores)
		b.Release = both(release, free)
		release = b.Release
	}
	spec.User = user
	if spec.Dirs, err = k.images.Missing(ctx, p.Image, ownDirs(p, spec.Mounts)); err != nil {
		release()
		return nil, err
	}
	if err := k.addRDMA(ctx, rt, b, &spec); err != nil {
		release()
		return nil, err
	}
	spec.TimerSlack = mpi.TimerSlack(job)
	if m := rt.VM(); m != nil {
		k.current.SetBooting(func() (string, error) { return m.BootConsole(spec.StateDir) })
	}
	if p.Restore {
		b.Container, err = k.restore(ctx, rt, spec)
	} else {
		b.Container, err = rt.Start(ctx, spec)
	}
	if err != nil {
		release()
		return nil, unusable(ctx, p, rt, unmountable(ctx, rt, spec, err))
	}
	k.verbs.reach(b.Guest())
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

// imageUser returns the user that the image names, if the job wants it.
func (k *maker) imageUser(ctx context.Context, rt driver.Runtime) (*core.Account, error) {
	if k.plan.Root || k.plan.CallerIDs || rt.Info().HostPrograms {
		return nil, nil
	}
	user, err := k.images.Account(ctx, k.plan.Image)
	if err != nil || user == nil {
		return nil, err
	}
	why := ""
	switch {
	case !rt.Info().MapsUsers:
		why = "with " + rt.Info().Name + ", processes have your own ids, as files in the volume would not be yours otherwise"
	case k.plan.VM != nil && k.plan.Seccomp:
		why = "in virtual machines, processes have your own ids with `seccomp:`, which refuses what would change them"
	default:
		return user, nil
	}
	k.say(fmt.Sprintf("note: the image's USER %s is left out: %s", k.plan.Image.Config.User, why))
	return nil, nil
}

func both(a, b func()) func() { return func() { a(); b() } }

// limitCores has the first process of a container keep to so many cores, which no other
// container of this user has until they are released.
func limitCores(env []string, n int) (limited []string, release func()) {
	set, release := reservation.Own().Cores(n)
	words := make([]string, len(set))
	for i, number := range set {
		words[i] = strconv.Itoa(number)
	}
	return append(env, core.CoresVariable+"="+strconv.Itoa(n), core.CoreSetVariable+"="+strings.Join(words, ",")), release
}

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

func (k *maker) spec(image driver.LocalImage, env []string, mounts []driver.Mount) (driver.ContainerSpec, error) {
	c, p := k.config, k.plan
	binary := k.options.Binary
	if binary == "" {
		var err error
		if binary, err = os.Executable(); err != nil {
			return driver.ContainerSpec{}, err
		}
	}
	s := driver.ContainerSpec{
		Owner: c.Owner, Name: fmt.Sprintf("bee-%s-%d-%d%s", c.Owner.Run, c.Owner.Attempt, c.Rank, k.suffix), Image: image,
		Hostname: c.Host.Name, Env: public(env, p.Secrets), Root: p.Root,
		Mounts:   []driver.Mount{{Source: cmp.Or(k.mounted, plan.VolumeDir(c.Host.Dir)), Target: p.Volume}},
		StateDir: filepath.Join(k.dir, "state"), DiskScratch: p.DiskScratch, Seccomp: p.Seccomp, Unfiltered: p.Unfiltered,
		Binary: binary, RunDir: k.runDir(), GPUs: p.GPUs,
	}
	if p.HoldsVolume() && c.Rank > 0 { // what its guest holds is its own
		s.Mounts[0].Source = k.machine.HeldVolume()
		if err := os.MkdirAll(s.Mounts[0].Source, 0o700); err != nil {
			return s, err
		}
	}
	if p.Memory > 0 {
		s.Env = append(s.Env, core.MemoryVariable+"="+strconv.FormatInt(p.Memory, 10))
	}
	if k.options.notices != nil {
		s.Env = append(s.Env, core.NoticeVariable+"=1")
	}
	for target, source := range p.Binds {
		s.Mounts = append(s.Mounts, driver.Mount{Source: filepath.Join(plan.InputsDir(c.Host.Dir), source), Target: target})
	}
	s.Mounts = append(s.Mounts, mounts...)
	if err := container.MakeMountPoints(s.Mounts[0].Source, p); err != nil {
		return s, err
	}
	// One within another comes after it, which would hide it.
	slices.SortFunc(s.Mounts, func(a, b driver.Mount) int { return strings.Compare(a.Target, b.Target) })
	for _, m := range k.members {
		if m.IP == "" && p.VM == nil { // alone, and the host's own files name it
			continue
		}
		line := m.Address() + " " + m.Name
		if p.VM != nil { // guests go by the same names on every site
			line += " node" + strconv.Itoa(m.Rank)
		}
		s.Hosts = append(s.Hosts, line)
	}
	return s, os.MkdirAll(s.StateDir, 0o700)
}

// runDir is the directory that the container sees as /.bee/run.
func (k *maker) runDir() string { return filepath.Join(k.dir, plan.RunName) }

// mpiJob describes the hosts to package mpi.
func mpiJob(plan *plan.Plan, members []peercall.Member, network peercall.Network) mpi.Job {
	job := mpi.Job{RunDir: container.InsideRun, Agent: "/.bee/rsh", Network: network.CIDR, Interface: network.Interface, Guests: plan.VM != nil, Limited: plan.Cores > 0, Root: plan.Root || os.Geteuid() == 0}
	for _, m := range members {
		processors := m.Processors
		if plan.Cores > 0 {
			processors = min(processors, plan.Cores)
		}
		job.Hosts = append(job.Hosts, mpi.Host{Name: m.Name, IP: m.Address(), Slots: m.Slots, CPUs: processors, Machine: m.Machine})
	}
	return job
}

// runtime gives the runtime for this node's container, and what gives
// back what it uses.
func (k *maker) runtime(ctx context.Context, name string) (rt driver.Runtime, why string, release func(), err error) {
	p := k.plan
	if p.VM == nil {
		rt, why, err = k.options.Runtime(ctx, name)
		return rt, why, func() {}, err
	}
	m := Machine{VM: *p.VM, Cores: cores(k.config), Free: k.memory.Free, Rank: k.config.Rank, Inputs: plan.InputsDir(k.config.Host.Dir), Report: func(text string) {
		k.options.Log.Info("of the virtual machine", "report", text)
		k.say(text) // those of the others take as long
	}, Emulated: k.emulates.Store, SoftRDMA: p.RDMA == plan.RDMASoft, PCI: p.PCI}
	if p.SavesVM() {
		m.Peers = k.peers()
	}
	if p.RDMA == plan.RDMABee {
		if m.Broker, err = k.verbs.inGuest(ctx, k.members, *p); err != nil {
			return nil, "", nil, err
		}
	}
	m.Sharers, m.Index = k.sharers()
	m.Volume = k.volume()
	if m.Tree, release, err = k.images.Tree(ctx, p.VM.Guest.ID); err != nil {
		return nil, "", nil, err
	}
	m.Kept = k.images.Kept(p.VM.Guest.ID)
	if p.VM.Fabric == fabric.Multicast && k.config.Size > 1 {
		m.Group, m.Via = fabric.Group(k.config.Owner.Run).String(), k.links.pool.ownIP()
	}
	if err = k.links.attach(&m); err != nil {
		release()
		return nil, "", nil, err
	}
	if m.Port != nil {
		release = both(release, func() { m.Port.Close() })
	}
	if rt, err = k.options.Machine(ctx, m); err != nil {
		release()
		return nil, "", nil, err
	}
	return rt, "the job asks for virtual machines", release, nil
}

// sharers is how many guests of the run are on this machine, and which of them
// is this node's.
func (k *maker) sharers() (count, index int) {
	own := machine()
	for _, m := range k.members {
		if id, _, _ := strings.Cut(m.Machine, "/"); id != own {
			continue
		}
		count++
		if m.Rank < k.config.Rank {
			index++
		}
	}
	return max(count, 1), index
}

// volume is what this node's machine has for a volume.
func (k *maker) volume() *MachineVolume {
	if k.plan.VM.Volume != plan.VolumeImage {
		return nil
	}
	v := &MachineVolume{Dir: plan.VolumeDir(k.config.Host.Dir)}
	if k.config.Rank > 0 {
		v.Server = fabric.Address(0).String()
		return v
	}
	v.Image = plan.VolumeImagePath(k.config.Host.Dir)
	if k.config.Size > 1 {
		v.Clients = fabric.Network().String()
	}
	return v
}

// peers is what this node's machine has to know to reach the others of the
// run by itself.
func (k *maker) peers() *driver.Peers {
	c := k.config
	p := &driver.Peers{
		Rank: c.Rank, CA: c.CA, Cert: c.Cert, Key: c.Key, Env: environment(k.plan, c, mpiJob(k.plan, k.members, k.network), nil),
		Dir: workdirOf(k.plan),
	}
	for _, m := range k.members {
		p.Members = append(p.Members, driver.Peer{Name: m.Name, IP: m.IP, Identity: plan.NodeName(m.Rank)})
	}
	return p
}

// restore brings this node's machine up from what was saved of it, halted.
func (k *maker) restore(ctx context.Context, rt driver.Runtime, s driver.ContainerSpec) (driver.Container, error) {
	mover := rt.VM()
	if mover == nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "bring up virtual machine on", Object: k.config.Host.Name, Err: errors.New("its runtime knows no saved ones"), Remedy: core.RemedyVersions}
	}
	part := plan.SavedPart(plan.RestoreDir(k.config.Host.Dir), k.config.Rank)
	if k.group != 0 { // it is on the head's host
		if err := k.machine.TakePart(ctx, 0, peercall.PartRequest{Rank: k.config.Rank}, part); err != nil {
			return nil, fmt.Errorf("take the saved machine from the head: %w", err)
		}
	}
	restored, err := mover.Restore(ctx, s, part)
	if err != nil {
		return nil, err
	}
	fsutil.TryRemoveAll(part) // the attempt's end removes all
	return restored, nil
}
