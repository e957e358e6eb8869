package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/wire"
)

// Restore implements driver.VMRuntime.
func (r *Runtime) Restore(ctx context.Context, s driver.ContainerSpec, dir string) (driver.Container, error) {
	if r.o.Fabric != nil && r.o.Fabric.Socket != nil {
		defer r.o.Fabric.Socket.Close()
	}
	m, err := r.restore(ctx, s, dir)
	if err != nil {
		return nil, &core.Error{Kind: core.KindOf(err), Op: "bring up saved virtual machine", Object: s.Name, Err: err, Remedy: core.Remedy(err)}
	}
	return m, nil
}

func (r *Runtime) restore(ctx context.Context, s driver.ContainerSpec, dir string) (_ *movable, err error) {
	rec, err := r.readRecord(s, dir)
	if err != nil {
		return nil, err
	}
	held, err := r.reserved(s, rec.Memory, 0, rec.HugePages)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			held.Release()
		}
	}()
	b := r.boot(s)
	b.config.Holds, b.reserved = true, held
	m := b.qemu
	m.Type, m.CPU, m.Topology, m.Memory, m.HugePages, m.Restore = rec.Type, rec.CPU, rec.Topology, rec.Memory, rec.HugePages, true
	if f := r.o.Fabric; f != nil {
		f.MTU = rec.MTU
	}
	m.Nets = append(m.Nets, r.fabricNet()...)
	// The kernel runs already, and is in the saved memory: the files only make
	// the same machine.
	m.Kernel, m.Initrd, m.Console = filepath.Join(b.guest, "vmlinux"), filepath.Join(b.dir, "initrd"), filepath.Join(b.dir, consoleName)
	if err := os.WriteFile(m.Initrd, make([]byte, 512), 0o600); err != nil {
		return nil, err
	}
	only := map[string]string{api.RootDisk: filepath.Join(b.guest, "root.sqfs"), api.ImageDisk: b.image}
	for i, d := range r.o.Disks {
		only[api.ExtraDisk(i)] = d.From
	}
	var parts []func() error
	for _, d := range rec.Disks {
		disk := qemu.Disk{Serial: d.Serial, ReadOnly: d.Digest != "", File: only[d.Serial]}
		switch {
		case d.Serial == api.DataDisk:
			disk = r.o.Volume.disk()
		case !disk.ReadOnly:
			disk.File = filepath.Join(b.dir, d.Serial)
		}
		m.Disks = append(m.Disks, disk)
		parts = append(parts, func() error { return prepareDisk(ctx, disk, d, dir) })
	}
	if err := core.Together(parts); err != nil {
		return nil, err
	}
	if r.o.Volume.here() {
		if err := r.o.Volume.room(); err != nil {
			return nil, err
		}
	}
	vm, err := b.launch(ctx, m)
	if err != nil {
		return nil, err
	}
	if err := rec.fits(ctx, vm.monitor); err != nil {
		vm.Kill()
		return nil, err
	}
	err = unpack(dir, memoryName, func(in io.Reader) error { return vm.monitor.LoadState(ctx, in) })
	if err != nil {
		err = vm.ifKilled(err)
		vm.Kill()
		if core.IsKind(err, core.Lost) {
			return nil, err
		}
		if printed := vm.LastOutput(); printed != "" {
			err = fmt.Errorf("%w: %s", err, printed)
		}
		return nil, &core.Error{Kind: core.Unsupported, Err: err, Remedy: "QEMU here may be older than that which saved it, or the processor may lack what that one's had: `vm: {cpu: …}` names a model that all hosts have."}
	}
	go vm.keep(held)
	c := &container{freezing: make(chan struct{}, 1), machine: vm, spec: s, volume: r.o.Volume, mounts: rec.Mounts, login: cmp.Or(rec.Login, b.config.User)} // what was saved before it was noted is of this very user, mostly
	c.halts.Add(1)
	saved := newMovable(c, b, rec.sums())
	saved.halted, saved.from, saved.task = true, rec.From, rec.Task
	saved.asks = r.o.SoftRDMA
	go func() {
		select {
		case <-saved.met:
			c.watch(r.silence)
		case <-vm.Done():
		}
	}()
	return saved, nil
}

// fits refuses a machine whose processor lacks what the saved one's had. QEMU itself
// would bring it up, and its software crash where it uses that.
func (r record) fits(ctx context.Context, m *qemu.Monitor) error {
	here, err := m.Features(ctx)
	if err != nil {
		return err
	}
	if lacking := r.Features.Lacking(here); len(lacking) > 0 {
		return &core.Error{
			Kind: core.Unsupported, Err: fmt.Errorf("the processor (%s) lacks here what its software saw where it was saved: %s", r.CPU, strings.Join(lacking, ", ")),
			Remedy: "Another site may have it. `vm: {cpu: …}` names, for a new run, a model that all hosts have.",
		}
	}
	return nil
}

// sums are the digests of the disks that are only read.
func (r record) sums() map[string]string {
	sums := map[string]string{}
	for _, d := range r.Disks {
		if d.Digest != "" {
			sums[d.Serial] = d.Digest
		}
	}
	return sums
}

// readRecord reads what was saved, and finds out whether it can be brought up
// here.
func (r *Runtime) readRecord(s driver.ContainerSpec, dir string) (record, error) {
	var rec record
	raw, err := fsutil.ReadFile(dir, driver.SavedMachine, driver.MostSavedMachine)
	if err != nil {
		return rec, &core.Error{Kind: core.NotFound, Err: err, Remedy: "Is the checkpoint whole?"}
	}
	if err := core.DecodeJSON(raw, &rec); err != nil {
		return rec, err
	}
	if err := rec.checkDisks(); err != nil {
		return rec, err
	}
	plain := !rec.HugePages && (r.o.Fabric == nil || r.o.Fabric.Path == "")
	switch {
	case rec.Version != recordVersion && !(rec.Version == 2 && plain): // which differ in nothing
		return rec, &core.Error{Kind: core.Unsupported, Err: fmt.Errorf("it was saved in form %d, and this is %d", rec.Version, recordVersion), Remedy: "Use the same version of bee everywhere."}
	case rec.Accel != r.o.Accel:
		return rec, &core.Error{Kind: core.Unsupported, Err: fmt.Errorf("it ran by %s, and this host offers %s", rec.Accel, r.o.Accel), Remedy: "`vm: {accel: …}` has all hosts use the same."}
	case rec.Image != s.Image.ID:
		return rec, &core.Error{Kind: core.Invalid, Err: fmt.Errorf("its image is %s, and this run's %s", rec.Image, s.Image.ID)}
	case !r.o.Volume.was(rec):
		return rec, &core.Error{Kind: core.Invalid, Err: errors.New("the volume is not what it was: a data image of node 0, or none")}
	case (rec.MTU > 0) != (r.o.Fabric != nil):
		return rec, &core.Error{Kind: core.Invalid, Err: errors.New("the network between the guests is not as it was")}
	}
	return rec, nil
}

// checkDisks refuses disks that no saved machine has.
func (r record) checkDisks() error {
	serials := make([]string, len(r.Disks))
	for i, d := range r.Disks {
		serials[i] = d.Serial
	}
	return driver.CheckSavedDisks(serials)
}

// prepareDisk puts a disk in its place, or checks one that is only read.
func prepareDisk(ctx context.Context, disk qemu.Disk, saved savedDisk, dir string) error {
	if !disk.ReadOnly {
		err := unpack(dir, saved.Serial+packed, func(in io.Reader) error { return treesync.Receive(ctx, in, disk.File) })
		if err != nil {
			return err
		}
		// What came may be anything: QEMU would open what a link leads to.
		if info, err := os.Lstat(disk.File); err != nil || !info.Mode().IsRegular() {
			return errors.Join(err, &core.Error{Kind: core.Invalid, Err: fmt.Errorf("its disk %s is no plain file", saved.Serial), Remedy: "It is not one that bee has written: do not use it."})
		}
		return nil
	}
	if disk.File == "" {
		return &core.Error{Kind: core.NotFound, Err: fmt.Errorf("there is nothing here for its disk %s", saved.Serial)}
	}
	is, err := fsutil.Digest(disk.File)
	if err == nil && is != saved.Digest {
		err = &core.Error{Kind: core.Unsupported, Err: fmt.Errorf("%s is not what it was where the machine was saved", disk.File), Remedy: "The same guest image and image have to be used: `bee image ls` shows them."}
	}
	return err
}

// boot is what all machines for a container have in common.
func (r *Runtime) boot(s driver.ContainerSpec) boot {
	b := boot{
		qemu: r.machine(), guest: r.o.Guest, binary: s.Binary, dir: s.StateDir, config: config(hostname(s)), image: s.Image.FileSystem, disk: r.o.Disk, pin: r.o.Pin, templates: r.o.Templates, report: r.report,
		dial: func(ctx context.Context) (net.Conn, error) {
			return wire.DialUnix(ctx, filepath.Join(s.RunDir, r.o.SocketName))
		},
	}
	b.qemu.Name = s.Name
	if o := r.o.Broker; o != nil {
		b.ask = o.Ask
		if p := o.Pool; p != nil {
			b.qemu.Pool, b.config.Pool, b.program = &qemu.Pool{File: p.File, Bytes: p.Bytes}, true, p.Program
		}
	}
	return b
}

// fabricNet is the machine's interface in the network between guests, if there
// is one.
func (r *Runtime) fabricNet() []qemu.Net {
	f := r.o.Fabric
	if f == nil {
		return nil
	}
	return []qemu.Net{{Socket: f.Socket, Path: f.Path, Group: f.Group, Via: f.Via, MAC: f.MAC, MTU: f.MTU}}
}
