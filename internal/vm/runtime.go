package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

const name = "vm"

// Options of the runtime.
type Options struct {
	// Binary is the bee binary that Probe uses; empty: this process's own.
	Binary string
	// Guest is the directory of the unpacked guest image.
	Guest string
	// Templates is the directory of this host for templates of that image's
	// guests, from which further ones start; "": all are booted.
	Templates string
	// Program is QEMU's command; nil: qemu-system-* in PATH.
	Program []string
	// Arch is the guest's, as Go names it; empty: this host's. Another one is
	// emulated, and needs Program and Binary of it.
	Arch string
	// Accel and CPU are QEMU's words for them.
	Accel, CPU string
	Topology   qemu.Topology
	// Memory of the guest and Disk for what docker keeps, in bytes.
	Memory, Disk int64
	HugePages    bool
	// Pin has the host's processors to which the guest's are bound, one each;
	// nil: they go where the host's kernel puts them.
	Pin []int
	// Disks are further disks, for the container.
	Disks []Disk
	// Bridge gives docker in the guest a network of its own as well.
	Bridge bool
	// Bare starts the image's programs in the guest itself, as root, in place of a container.
	Bare bool
	// Emulated has devices that QEMU emulates as hardware in place of virtio's, but for those
	// by which the host speaks with the guest.
	Emulated bool
	// SoftRDMA gives the guest the software device of its kernel, over Fabric; PCI the function
	// of a card by its address on the host, "" none.
	SoftRDMA bool
	PCI      string
	// Broker is what the guest's agent makes the broker of bee_0 of; nil: there is none.
	Broker *driver.BrokerOptions
	// Fabric is this host's place in the network of the guests; nil: none.
	Fabric *Fabric
	// Peers makes guests with a driver.Snapshot; nil: they use directories of
	// the host.
	Peers *driver.Peers
	// Volume is the run's volume where it is no directory of this host; nil:
	// it is.
	Volume *Volume
	// Inputs is a directory of this host in which mounts of the container lie, as
	// many as there may be: a guest has it as one share; "": there is none.
	Inputs string
	// ShareServer is the command of a server (qemu.ChooseShareServer) by which
	// guests have the directories that they may write to; nil: by 9p.
	ShareServer []string
	// SocketName is that of the node's socket in a container's run directory.
	SocketName string
	// Report is given how the boot goes; nil: nobody.
	Report func(message string)
}

// Volume is a data image, which one guest has and the others mount from it.
type Volume struct {
	// Dir is the source of the mount that it stands in for.
	Dir string
	// Image is the file of the image, on the host of the guest that has it.
	Image string
	// Server is that guest's address, for the others; Clients the network
	// that it serves, "" for none.
	Server, Clients string
}

// Fabric is a guest's place in the network of guests.
type Fabric struct {
	api.Interface
	// Socket is the end of a datagram socket pair that takes and gives
	// frames. Start hands it to QEMU and closes it.
	Socket *os.File
	// Path is a Unix socket, in place of Socket; Group and Via are for
	// multicast: see qemu.Net.
	Path       string
	Group, Via string
}

// Runtime implements driver.Runtime: each container gets a machine of its own.
type Runtime struct {
	o Options
	// timeout is how long a guest may run until a container has started. That
	// takes a few seconds under software emulation, and as long for a large image.
	timeout time.Duration
	// silence is for how long a guest may run and answer nothing before it is ended.
	silence time.Duration
}

// New makes the runtime.
func New(o Options) *Runtime {
	if o.Program == nil {
		o.Program = qemu.Choose(context.Background(), o.Guest)
	}
	return &Runtime{o: o, timeout: 2 * time.Minute, silence: 3 * time.Minute}
}

// Info implements driver.Runtime.
func (r *Runtime) Info() driver.Info {
	inside := "docker"
	if r.o.Bare {
		inside = "no container"
	}
	return driver.Info{Name: name, Summary: inside + " in a virtual machine (QEMU, " + r.o.Accel + ")", MapsUsers: true}
}

// Needs implements driver.Runtime.
func (r *Runtime) Needs() driver.ImageForm { return driver.FileSystem }

// Prepare implements driver.Runtime. The guest mounts the image when it boots.
func (r *Runtime) Prepare(context.Context, driver.LocalImage) error { return nil }

// Probe implements driver.Runtime by booting a machine.
func (r *Runtime) Probe(ctx context.Context) (driver.Facts, error) {
	dir, err := fsutil.TempDir("", "bee-vm-")
	if err != nil {
		return driver.Facts{}, err
	}
	defer os.RemoveAll(dir)
	self := r.o.Binary
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return driver.Facts{}, err
		}
	}
	begun := time.Now()
	b := boot{qemu: r.machine(), guest: r.o.Guest, binary: self, dir: dir, config: config("probe"), disk: r.o.Disk, dial: refuse}
	m, err := b.start(ctx)
	if err != nil {
		return driver.Facts{Reason: err.Error(), Remedy: core.Remedy(err)}, nil // that it does not work is the finding
	}
	defer m.Kill()
	return driver.Facts{Usable: true, Reason: fmt.Sprintf("a guest with docker was up after %v", time.Since(begun).Round(10*time.Millisecond)), Version: m.hello.Kernel}, nil
}

func refuse(context.Context) (net.Conn, error) { return nil, errors.New("there is no node") }

// machine is what all machines of these options have in common.
func (r *Runtime) machine() qemu.Machine {
	o := r.o
	return qemu.Machine{
		Program: o.Program, Arch: o.Arch, Accel: o.Accel, CPU: o.CPU, Topology: o.Topology, Memory: o.Memory, HugePages: o.HugePages, Emulated: o.Emulated,
		Nets: []qemu.Net{{}}, Function: o.PCI,
	}
}

// config is what every guest gets.
func config(hostname string) api.Config {
	c := api.Config{Hostname: hostname, UID: os.Geteuid(), GID: os.Getegid(), User: "user"}
	if u, err := user.Current(); err == nil {
		c.User = u.Username
	}
	for _, e := range os.Environ() {
		if key, _, _ := strings.Cut(e, "="); strings.HasSuffix(strings.ToLower(key), "_proxy") {
			c.Env = append(c.Env, e)
		}
	}
	return c
}

// Start implements driver.Runtime.
func (r *Runtime) Start(ctx context.Context, s driver.ContainerSpec) (_ driver.Container, err error) {
	if r.o.Fabric != nil && r.o.Fabric.Socket != nil {
		defer r.o.Fabric.Socket.Close()
	}
	if s.StateDir == "" || s.RunDir == "" || s.Binary == "" || s.Image.FileSystem == "" {
		return nil, &core.Error{Kind: core.Invalid, Op: "start virtual machine", Object: s.Name, Err: errors.New("a container needs StateDir, RunDir, Binary and a file system of its image"), Remedy: core.RemedyFault}
	}
	if s.GPUs != 0 {
		return nil, &core.Error{Kind: core.Unsupported, Op: "start virtual machine", Object: s.Name, Err: errors.New("a guest cannot use the host's GPUs"), Remedy: "Run it in a container without `vm:`."}
	}
	if len(s.Devices) != 0 {
		return nil, &core.Error{Kind: core.Unsupported, Op: "start virtual machine", Object: s.Name, Err: errors.New("a guest cannot use the host's devices"), Remedy: "Run it in a container without `vm:`."}
	}
	if r.o.Bare && (r.o.Peers != nil || !s.Root) {
		return nil, &core.Error{Kind: core.Unsupported, Op: "start virtual machine without a container", Object: s.Name, Err: errors.New("its programs run as root, and it cannot be saved"), Remedy: "Leave out `user` and `checkpoint`."}
	}
	if r.o.PCI != "" && r.o.Peers != nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "start virtual machine", Object: s.Name, Err: errors.New("a guest with a function of a card cannot be saved"), Remedy: "Set `rdma: soft`, or leave `checkpoint: {mode: vm}` out."}
	}
	if r.o.Broker != nil && r.o.Peers != nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "start virtual machine", Object: s.Name, Err: errors.New("a guest with bee_0 cannot be saved"), Remedy: "Set `rdma: soft`, or leave `checkpoint: {mode: vm}` out."}
	}
	held, err := r.reserved(s, r.o.Memory, r.shared(), r.o.HugePages)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	if u := s.User; u != nil && u.UID == os.Geteuid() && u.GID == os.Getegid() {
		s.User = nil // the caller already
	}
	b := r.boot(s)
	b.reserved = held
	b.config.Image = &api.Image{Tag: s.Image.ArchiveTag, Config: s.Image.Config, User: s.User}
	if s.Root { // the guest's own: what it writes to shares is the user's outside
		b.config.UID, b.config.GID, b.config.User = 0, 0, "root"
	}
	b.config.Hosts, b.config.Bridge, b.config.Bare = s.Hosts, r.o.Bridge, r.o.Bare
	b.config.Emulated, b.config.RDMA = r.o.Emulated, r.rdma()
	inner := s
	if b.config.Holds = r.o.Peers != nil; b.config.Holds {
		inner.Mounts, err = hold(s.Mounts, r.o.Volume)
	} else {
		inner.Mounts, err = b.share(s.Mounts, r.o)
	}
	if err != nil {
		return nil, err
	}
	if n := len(b.qemu.Shares); n > qemu.MostShares {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "start virtual machine", Object: s.Name, Err: fmt.Errorf("it has %d directories of its host, expected at most %d", n, qemu.MostShares),
			Remedy: "Mount the directory that several of `mounts:` lie in.",
		}
	}
	disks, err := b.attach(r.o.Disks)
	if err != nil {
		return nil, err
	}
	inner.Mounts = append(inner.Mounts, disks...)
	if f := r.o.Fabric; f != nil {
		b.qemu.Nets = append(b.qemu.Nets, r.fabricNet()...)
		b.config.Fabric = &f.Interface
	}
	if v := r.o.Volume; v != nil {
		b.config.Volume = &api.Volume{Server: v.Server, Clients: v.Clients}
		if v.here() {
			b.qemu.Disks = append(b.qemu.Disks, v.disk())
		}
	}
	request := api.StartRequest{Spec: inner, Peers: r.o.Peers, RDMA: b.config.RDMA != "", Broker: r.o.Broker}
	if request.Files, err = runFiles(s.RunDir); err != nil {
		return nil, err
	}
	request.Spec.StateDir, request.Spec.RunDir, request.Spec.Binary = "", "", ""
	request.Spec.Image = driver.LocalImage{Image: s.Image.Image, ArchiveTag: s.Image.ArchiveTag} // its docker has it; the files are the host's
	if r.o.Bare {
		request.Spec.Image.Tree = api.BareTree
	} else if s.User != nil {
		request.Spec.Image.ArchiveTag = api.UserTag(s.Image.ArchiveTag)
	}
	c, err := r.bring(ctx, b, s, request)
	if replaceable(err) && ctx.Err() == nil {
		r.report("trying another virtual machine: " + err.Error())
		c, err = r.bring(ctx, b, s, request)
	}
	if err != nil {
		return nil, err
	}
	go c.machine.keep(held)
	if b.config.Holds {
		m := newMovable(c, b, nil)
		close(m.met)
		return m, nil
	}
	return c, nil
}

// bring boots a machine and starts the container in it.
func (r *Runtime) bring(ctx context.Context, b boot, s driver.ContainerSpec, request api.StartRequest) (*container, error) {
	begun := time.Now()
	m, err := b.start(ctx)
	if err != nil {
		return nil, err
	}
	c := &container{freezing: make(chan struct{}, 1), machine: m, spec: s, volume: r.o.Volume, mounts: request.Spec.Mounts, login: b.config.User, brokers: request.Broker != nil}
	how := "from a template"
	if !m.made.Restore {
		last := "docker"
		if r.o.Bare {
			last = "image"
		}
		how = fmt.Sprintf("kernel %v, root %v, %s %v", m.hello.Init, m.hello.Root, last, m.hello.Docker)
	}
	r.report(fmt.Sprintf("virtual machine up after %v (%s)", time.Since(begun).Round(10*time.Millisecond), how))
	begun = time.Now()
	if b.config.Holds {
		go c.watch(r.silence) // copying takes as long as it takes
		for i, mount := range s.Mounts {
			if r.o.Volume.is(mount) {
				continue
			}
			if err := m.fill(ctx, request.Spec.Mounts[i], mount.Source); err != nil {
				m.Kill()
				return nil, err
			}
		}
	}
	bounded, cancel := m.within(ctx, r.timeout, errStuck)
	defer cancel()
	if _, err := call(bounded, c, api.CallStart, request); err != nil {
		if context.Cause(bounded) == errStuck { //nolint:errorlint // the cause is that very error
			err = &core.Error{
				Kind: core.Lost, Op: "start container in virtual machine", Object: s.Name,
				Err: fmt.Errorf("%w: no container within %v in which it could run\n%s", errStuck, r.timeout, c.describe()),
			}
		}
		m.Kill()
		return nil, err
	}
	if request.RDMA || request.Broker != nil {
		if err := c.askDevices(bounded); err != nil {
			m.Kill()
			return nil, err
		}
	}
	r.report(fmt.Sprintf("container up in it after %v more", time.Since(begun).Round(10*time.Millisecond)))
	if !b.config.Holds {
		go c.watch(r.silence)
	}
	return c, nil
}

// shared is how much of the host's memory is held for the guest's part of a pool.
func (r *Runtime) shared() int64 {
	if b := r.o.Broker; b != nil && b.Pool != nil {
		return b.Pool.Share
	}
	return 0
}

// rdma is where a guest has its RDMA device from.
func (r *Runtime) rdma() string {
	switch {
	case r.o.SoftRDMA:
		return api.SoftRDMA
	case r.o.PCI != "":
		return api.CardRDMA
	}
	return ""
}

func (r *Runtime) report(message string) {
	if r.o.Report != nil {
		r.o.Report(message)
	}
}

func hostname(s driver.ContainerSpec) string {
	if s.Hostname != "" {
		return s.Hostname
	}
	if h, err := os.Hostname(); err == nil {
		return h
	}
	return "guest"
}

// share has the guest see the directories that a container's mounts come
// from, that of the volume first, and gives the mounts as they are in the guest.
func (b *boot) share(mounts []driver.Mount, o Options) ([]driver.Mount, error) {
	inputs := o.Inputs
	if resolved, err := filepath.EvalSymlinks(inputs); err == nil {
		inputs = resolved
	}
	inner := slices.Clone(mounts)
	for _, ofInputs := range []bool{false, true} {
		for i, m := range mounts {
			if o.Volume.is(m) {
				inner[i].Source = api.VolumePath
				continue
			}
			if m.Dir != nil {
				if !ofInputs {
					inner[i].Source, inner[i].Dir = b.add(qemu.Share{Dir: m.Dir, ReadOnly: m.ReadOnly}, o.ShareServer), nil
				}
				continue
			}
			source, dir, err := shareOf(m, inputs)
			if err != nil {
				return nil, err
			}
			if (dir == inputs) == ofInputs {
				inner[i].Source = path.Join(b.shared(dir, m.ReadOnly, o.ShareServer), strings.TrimPrefix(source, dir))
			}
		}
	}
	return inner, nil
}

// shareOf gives where a mount comes from, without links, and the directory that has to be
// shared for it.
func shareOf(m driver.Mount, inputs string) (source, dir string, err error) {
	if source, err = filepath.EvalSymlinks(m.Source); err != nil {
		return "", "", &core.Error{Kind: core.NotFound, Op: "mount", Object: m.Source, Err: err}
	}
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return "", "", err
	case inputs != "" && strings.HasPrefix(source, inputs+"/"):
		return source, inputs, nil
	case !info.IsDir(): // only directories can be shared: its own
		return source, filepath.Dir(source), nil
	}
	return source, source, nil
}

// shared has the guest see a directory, once, and gives its place there: each share
// is a device, and what all guests have leaves room for some twenty.
func (b *boot) shared(dir string, readOnly bool, server []string) string {
	for i, s := range b.qemu.Shares {
		if s.Path == dir && s.ReadOnly == readOnly {
			return b.config.Shares[i].Target
		}
	}
	return b.add(qemu.Share{Path: dir, ReadOnly: readOnly}, server)
}

// add shares a directory by a device of its own, and returns its path in the guest. A
// read-only directory is shared by 9p: only 9p keeps the guest from writing.
func (b *boot) add(outer qemu.Share, server []string) string {
	tag := "bee" + strconv.Itoa(len(b.qemu.Shares))
	outer.Tag = tag
	guest := api.Share{Tag: tag, Target: path.Join("/mnt", tag), Type: "9p", Options: options9p, ReadOnly: outer.ReadOnly}
	if server != nil && !outer.ReadOnly {
		outer.Server = server
		guest.Type, guest.Options = "virtiofs", ""
	}
	b.qemu.Shares, b.config.Shares = append(b.qemu.Shares, outer), append(b.config.Shares, guest)
	return guest.Target
}

// options9p: what a guest writes is on the host at once and what others write
// is seen, except by files that are mapped into memory.
const options9p = "trans=virtio,version=9p2000.L,msize=1048576,cache=mmap,access=any"

// runFiles are the node's files for the job's MPI.
func runFiles(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// VM implements driver.Runtime.
func (r *Runtime) VM() driver.VMRuntime { return r }
