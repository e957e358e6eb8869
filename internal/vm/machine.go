// Package vm runs containers in virtual machines that it boots on this host,
// without root: a runtime whose containers are one layer further in. Images,
// volumes and the node stay outside; inside are a kernel, docker and BEE's
// hand (package guest).
package vm

import (
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
	"github.com/bee-hpc/bee/internal/vm/agent"
	"github.com/bee-hpc/bee/internal/vm/initrd"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// machine is a booted virtual machine and the connections into it.
type machine struct {
	*qemu.Process
	hand  *wire.Peer // to the guest's process that runs containers
	root  *wire.Peer // to the guest's root
	hello agent.Hello
}

// boot is what a machine is booted from.
type boot struct {
	qemu   qemu.Machine // without kernel, disks of ours, ports, console
	guest  string       // directory of the guest image
	binary string       // BEE's
	dir    string       // for files of this machine, which exists
	config agent.Config
	image  string // file of the container image, "" for none
	disk   int64  // bytes of scratch space
	pin    []int  // the host's processors for the guest's; nil: any
	// dial connects to the node of this host.
	dial func(ctx context.Context) (net.Conn, error)
}

// consoleName is the file of what the guest's kernel says.
const consoleName = "console.log"

// start boots a machine and waits until docker answers in it.
func (b boot) start(ctx context.Context) (*machine, error) {
	m := b.qemu
	m.Kernel, m.Initrd, m.Console = filepath.Join(b.guest, "vmlinux"), filepath.Join(b.dir, "initrd"), filepath.Join(b.dir, consoleName)
	m.Append = "console=" + m.ConsoleDevice() + " quiet rdinit=/" + agent.BinaryPath + " panic=-1 mitigations=off tsc=reliable random.trust_cpu=on -- " + agent.Command
	if err := writeInitrd(m.Initrd, filepath.Join(b.guest, "modules"), b.binary, b.config); err != nil {
		return nil, err
	}
	scratch := filepath.Join(b.dir, "scratch")
	if err := sparse(scratch, b.disk); err != nil {
		return nil, err
	}
	m.Disks = append([]qemu.Disk{{File: filepath.Join(b.guest, "root.sqfs"), Serial: agent.RootDisk, ReadOnly: true},
		{File: scratch, Serial: agent.ScratchDisk}}, m.Disks...)
	if b.image != "" {
		m.Disks = append(m.Disks, qemu.Disk{File: b.image, Serial: agent.ImageDisk, ReadOnly: true})
	}
	var ours []net.Conn
	closeOurs := func() {
		for _, c := range ours {
			c.Close()
		}
	}
	for _, name := range []string{agent.NodePort, agent.RootPort} {
		own, theirs, err := socketPair(unix.SOCK_STREAM)
		if err != nil {
			closeOurs()
			return nil, err
		}
		defer theirs.Close()
		ours = append(ours, own)
		m.Ports = append(m.Ports, qemu.Port{Name: name, Socket: theirs})
	}
	p, err := m.Start()
	if err != nil {
		closeOurs()
		return nil, err
	}
	vm := &machine{Process: p}
	if b.pin != nil {
		err = p.Pin(ctx, b.pin)
	}
	if err != nil {
		err = fmt.Errorf("%w: %s", err, p.Said())
	} else if vm.hand, err = wire.NewPeerWith(ours[0], true, "the guest", wire.Trusting); err == nil {
		vm.root, err = wire.NewPeerWith(ours[1], true, "the guest", wire.Trusting)
	}
	if err == nil {
		go vm.serve(b.dial)
		err = vm.await(ctx)
	}
	if err != nil {
		p.Kill()
		closeOurs()
		return nil, err
	}
	os.Remove(m.Initrd) //nolint:errcheck // the guest has it in memory
	return vm, nil
}

// await waits until the guest says that it is up.
func (vm *machine) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, fmt.Errorf("the guest did not come up within %v", bootTimeout))
	defer cancel()
	said := make(chan error, 1)
	go func() { said <- vm.hand.Call(ctx, agent.CallHello, nil, &vm.hello) }()
	var err error
	select {
	case err = <-said:
	case <-vm.Done():
		err = errors.New("the virtual machine ended")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	text := vm.Said()
	if text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	e := &core.Error{Kind: core.Permanent, Op: "boot virtual machine", Err: err}
	if strings.Contains(text, "CPU model") { // QEMU knows which there are
		e.Kind, e.Remedy = core.Unsupported, "Name one that QEMU on the hosts knows: `"+qemu.Program()+" -cpu help` lists them; `vm: {cpu: max}` has all that the host offers."
	}
	return e
}

// bootTimeout is generous: software emulation on a loaded machine is slow.
const bootTimeout = 5 * time.Minute

// serve joins those in the guest who want the node with it.
func (vm *machine) serve(dial func(ctx context.Context) (net.Conn, error)) {
	vm.hand.Serve(context.Background(), func(ctx context.Context, method string, s *wire.Stream) error { //nolint:errcheck // it ends with the machine
		if method != agent.CallDial {
			return &core.Error{Kind: core.Unsupported, Op: "call from the guest", Object: method, Err: errors.New("there is no such call")}
		}
		c, err := dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := s.Reply(nil); err != nil {
			return err
		}
		go func() {
			io.Copy(c, s) //nolint:errcheck // its end is what counts
			c.Close()
		}()
		_, err = io.Copy(s, c)
		return err
	})
}

func writeInitrd(path, modules, binary string, c agent.Config) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(initrd.Write(f, modules, binary, c), f.Close())
}

// sparse makes a file that takes no space yet.
func sparse(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
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
