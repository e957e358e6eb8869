// Package vm runs containers in virtual machines that it boots on this host,
// without root: a runtime whose containers are one layer further in. Images,
// volumes and the node stay outside; inside are a kernel, docker and BEE's
// containerAgent (package guest).
package vm

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/vm/initrd"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// machine is a booted virtual machine and the connections into it.
type machine struct {
	*qemu.Process
	made           qemu.Machine  // as it was started
	monitor        *qemu.Monitor // nil where it cannot be saved
	containerAgent *rpc.Peer     // to the guest's process that runs containers
	root           *rpc.Peer     // to the guest's root
	hello          api.Hello
}

// boot is what a machine is booted from.
type boot struct {
	qemu   qemu.Machine // without kernel, disks of ours, ports, console
	guest  string       // directory of the guest image
	binary string       // BEE's
	dir    string       // for files of this machine, which exists
	config api.Config
	image  string // file of the container image, "" for none
	disk   int64  // bytes of scratch space
	// templates is the directory of the guest image's templates; "": none.
	templates string
	report    func(message string)
	pin       []int // the host's processors for the guest's; nil: any
	// reserved is of its memory; nil: none.
	reserved *reservation.Held
	// dial connects to the node of this host.
	dial func(ctx context.Context) (net.Conn, error)
	// program carries a program of the guest with the broker of its host; nil: there is none for it.
	program func(ctx context.Context, stream net.Conn) error
	// ask asks for a connection with the broker of another node; nil: the guest has no broker.
	ask func(ctx context.Context, rank int) error
	// timeout is how long it may take to boot; 0: bootTimeout.
	timeout time.Duration
}

// consoleName is the file of what the guest's kernel says.
const consoleName = "console.log"

// cold boots a machine and waits until docker answers in it.
func (b boot) cold(ctx context.Context) (*machine, error) {
	vm, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := vm.await(ctx, b); err != nil {
		vm.Kill()
		return nil, err
	}
	fsutil.TryRemove(vm.made.Initrd) // the guest has it in memory
	return vm, nil
}

// begin starts a machine that boots.
func (b boot) begin(ctx context.Context) (*machine, error) {
	m := b.assemble()
	if err := writeInitrd(m.Initrd, filepath.Join(b.guest, "modules"), b.binary, b.config); err != nil {
		return nil, err
	}
	if err := sparse(filepath.Join(b.dir, api.ScratchDisk), b.disk); err != nil {
		return nil, err
	}
	return b.launch(ctx, m)
}

// assemble gives the machine with all that it is made of.
func (b boot) assemble() qemu.Machine {
	m := b.qemu
	m.Kernel, m.Initrd, m.Console = filepath.Join(b.guest, "vmlinux"), filepath.Join(b.dir, "initrd"), filepath.Join(b.dir, consoleName)
	m.Append = "console=" + m.ConsoleDevice() + " quiet rdinit=/" + api.BinaryPath + " panic=-1 mitigations=off random.trust_cpu=on cryptomgr.notests" + m.ClockOptions() + " -- " + api.Command
	m.Disks = append([]qemu.Disk{
		{File: filepath.Join(b.guest, "root.sqfs"), Serial: api.RootDisk, ReadOnly: true},
		{File: filepath.Join(b.dir, api.ScratchDisk), Serial: api.ScratchDisk},
	}, m.Disks...)
	if b.image != "" {
		m.Disks = append(m.Disks, qemu.Disk{File: b.image, Serial: api.ImageDisk, ReadOnly: true})
	}
	return m
}

// launch starts a machine, with its ports for us and, where its state is to be
// saved or comes from elsewhere, its monitor.
func (b boot) launch(ctx context.Context, m qemu.Machine) (*machine, error) {
	for _, name := range []string{api.NodePort, api.RootPort} {
		f, err := wire.ListenFile(filepath.Join(b.dir, name)) // at which we knock later
		if err != nil {
			return nil, err
		}
		defer f.Close()
		m.Ports = append(m.Ports, qemu.Port{Name: name, Socket: f, Listens: true})
	}
	var commands net.Conn
	if b.config.Holds || b.config.Template || m.Restore {
		own, theirs, err := socketPair(unix.SOCK_STREAM)
		if err != nil {
			return nil, err
		}
		commands, m.Control = own, theirs
	}
	if m.Unconfined = !qemu.HasSandbox(ctx, m.Program); m.Unconfined && b.report != nil {
		b.report("QEMU runs without its sandbox, as " + strings.Join(m.Program, " ") + " is built without seccomp")
	}
	p, err := m.Start()
	if m.Control != nil {
		m.Control.Close() // else we would not see the machine close it, which ends
	}
	if err != nil {
		if commands != nil {
			commands.Close()
		}
		return nil, err
	}
	b.reserved.Follow(p.PID())
	vm := &machine{Process: p, made: m}
	if b.pin != nil {
		if err := p.Pin(ctx, b.pin); err != nil {
			p.Kill()
			return nil, fmt.Errorf("%w: %s", err, p.LastOutput())
		}
	}
	if commands != nil {
		if vm.monitor, err = qemu.NewMonitor(ctx, commands.(*net.UnixConn)); err != nil { // what socketPair makes
			err = vm.ifKilled(err)
			p.Kill()
			return nil, fmt.Errorf("%w: %s", err, p.LastOutput())
		}
	}
	return vm, nil
}

// keep keeps the reservation of the machine's memory until it has ended.
func (vm *machine) keep(p *reservation.Held) {
	<-vm.Done()
	p.Release()
}

// ifKilled gives the error of a machine that does not come up: where it was killed,
// nothing is wrong with what it was made of, and it may come up elsewhere.
func (vm *machine) ifKilled(err error) error {
	if !vm.Killed() {
		return err
	}
	return &core.Error{Kind: core.Lost, Err: fmt.Errorf("its QEMU was killed (%v), by its host perhaps for want of memory: %w", vm.State(), err)}
}

// port begins a session with the guest by one of its ports. A guest that was
// brought up again (timeout is not 0) has to notice first that its host has
// gone: Linux reports who reads a port so only if he looks before another host has
// come. So the port stays shut for a part of timeout, and it is shown to the
// guest again, for longer, until it greets.
func (b boot) port(ctx context.Context, name string, timeout time.Duration) (*rpc.Peer, error) {
	for {
		select {
		case <-time.After(timeout / 4):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		peer, err := b.knock(ctx, name, timeout)
		if err == nil || timeout == 0 || ctx.Err() != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return peer, err
		}
		timeout *= 2
	}
}

func (b boot) knock(ctx context.Context, name string, timeout time.Duration) (*rpc.Peer, error) {
	c, err := wire.DialUnix(ctx, filepath.Join(b.dir, name))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if timeout > 0 {
		c.SetReadDeadline(time.Now().Add(timeout))
	}
	in := bufio.NewReader(c)
	if err := skipTo(in, api.Greeting); err != nil {
		c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	c.SetReadDeadline(time.Time{})
	return rpc.NewPeer(greeted{c, in}, true, "the guest", wire.Local, api.Protocol)
}

// greeted is a connection of which the beginning has been read.
type greeted struct {
	net.Conn
	in *bufio.Reader
}

func (g greeted) Read(b []byte) (int, error) { return g.in.Read(b) }

// skipTo reads up to the end of some text, whose first byte is in it once.
func skipTo(r *bufio.Reader, text string) error {
	for at := 0; at < len(text); {
		c, err := r.ReadByte()
		switch {
		case err != nil:
			return err
		case c == text[at]:
			at++
		case c == text[0]:
			at = 1
		default:
			at = 0
		}
	}
	return nil
}

// meet begins the sessions with the guest, and serves it.
func (vm *machine) meet(ctx context.Context, b boot, timeout time.Duration) error {
	var err error
	if vm.containerAgent, err = b.port(ctx, api.NodePort, timeout); err != nil {
		return err
	}
	go vm.serve(b)
	return nil
}

// await waits until the guest says that it is up.
func (vm *machine) await(ctx context.Context, b boot) error {
	ctx, cancel := vm.unlessStuck(ctx, cmp.Or(b.timeout, bootTimeout))
	defer cancel()
	printed := make(chan error, 1)
	go func() {
		err := vm.meet(ctx, b, 0)
		if err == nil {
			vm.hello, err = rpc.Call(ctx, vm.containerAgent, api.CallHello, rpc.None{})
		}
		if err == nil {
			vm.root, err = b.port(ctx, api.RootPort, 0)
		}
		printed <- err
	}()
	var err error
	select {
	case err = <-printed:
	case <-vm.Done():
		err = fmt.Errorf("the virtual machine ended (%s)", vm.State())
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	over := ctx.Err() == nil && vm.Over()
	text := vm.LastOutput()
	if over { // what broke with it says nothing
		err = fmt.Errorf("QEMU has ended (%s)", vm.State())
	}
	if text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	e := &core.Error{Kind: core.Permanent, Op: "boot virtual machine", Err: err}
	switch {
	case errors.Is(err, errStuck):
		e.Kind = core.Lost
	case over && vm.Killed():
		e.Kind, e.Remedy = core.Lost, "Its host has no memory left, perhaps: ask for less by `vm: {memory: …}`."
	case strings.Contains(text, "CPU model"): // QEMU knows which there are
		e.Kind, e.Remedy = core.Unsupported, "Name one that QEMU on the hosts knows: `"+qemu.Program()+" -cpu help` lists them; `vm: {cpu: max}` has all that the host offers."
	case strings.Contains(text, "SMP CPUs"):
		e.Kind, e.Remedy = core.Unsupported, "Set `vm: {cpus: …}` to fewer."
	case strings.Contains(text, "virtio-pmem"):
		e.Kind, e.Remedy = core.Unsupported, "QEMU has no device for the memory that guests share: leave `path: direct` of `rdma:` out."
	case over && text == "":
		e.Remedy = "QEMU printed nothing: `" + strings.Join(vm.made.Program, " ") + " --version` on that host shows whether it runs there at all."
	case over && vm.made.Accel == KVM && strings.Contains(strings.ToLower(text), "kvm"):
		e.Kind, e.Remedy = core.Unsupported, "`vm: {accel: auto}` uses KVM only where it works; `bee doctor` tells why it does not."
	}
	return e
}

// serve joins those in the guest who want the node with it, and answers its broker.
func (vm *machine) serve(b boot) {
	s := rpc.NewServer(nil)
	rpc.HandleStream(s, api.CallDial, func(ctx context.Context, _ rpc.Caller, _ rpc.None, to rpc.Answer[rpc.None]) error {
		c, err := b.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		go func() {
			core.BestEffort(io.Copy(c, to)) // its end is what counts
			c.Close()
		}()
		_, err = io.Copy(to, c)
		return err
	})
	if b.program != nil {
		rpc.HandleStream(s, api.CallProgram, func(ctx context.Context, _ rpc.Caller, _ rpc.None, to rpc.Answer[rpc.None]) error {
			if err := to.Reply(rpc.None{}); err != nil {
				return err
			}
			return b.program(ctx, to.Stream)
		})
	}
	if b.ask != nil {
		rpc.Handle(s, api.CallAsk, func(ctx context.Context, _ rpc.Caller, r api.BrokerRequest) (rpc.None, error) {
			return rpc.None{}, b.ask(ctx, r.Rank)
		})
	}
	vm.containerAgent.Serve(context.Background(), s, rpc.Caller{Role: rpc.Guest, Rank: -1})
}

func writeInitrd(path, modules, binary string, c api.Config) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(initrd.Write(f, modules, binary, c), f.Close())
}

// sparse makes a disk that takes no space yet.
func sparse(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Truncate(size), f.Close())
	if errors.Is(err, unix.EFBIG) {
		err = &core.Error{
			Kind: core.Unsupported, Op: "make a disk of", Object: fmt.Sprint(size>>30, " GiB"), Err: err,
			Remedy: "Its host's file system has no files so large: lower `disk`, or the `size` of `disks`, in the Beefile's `vm:`.",
		}
	}
	return err
}

// socketPair gives both ends of a connection, one of them for another process.
func socketPair(kind int) (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(fds[1]), "socket "+strconv.Itoa(fds[1]))
	f := os.NewFile(uintptr(fds[0]), "socket "+strconv.Itoa(fds[0]))
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return c, theirs, nil
}
