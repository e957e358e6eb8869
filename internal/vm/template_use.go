package vm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/vm/template"
)

// impersonal returns the part that is the same for all guests of one kind, of whatever run.
func (b boot) impersonal() boot {
	c := b.config
	b.config = api.Config{Template: true, Hostname: "template", UID: c.UID, GID: c.GID, User: c.User, Bridge: c.Bridge, Env: c.Env}
	b.qemu.Name, b.qemu.Disks, b.qemu.Nets, b.qemu.Shares = "template", nil, nil, nil
	b.image, b.pin, b.templates = "", nil, ""
	return b
}

// template returns the template that fits the machine, there or not; false: none can.
func (b boot) template(ctx context.Context) (template.Template, bool) {
	if b.templates == "" || b.config.Bare || b.qemu.Emulated || b.qemu.Function != "" || b.qemu.Pool != nil || b.qemu.HugePages || b.qemu.Unmovable() {
		return template.Template{}, false
	}
	key, err := b.templateKey(ctx)
	return template.Template{Dir: b.templates, Key: key}, err == nil
}

// templateKey returns the key of the template that fits the machine.
func (b boot) templateKey(ctx context.Context) (string, error) {
	own := b.impersonal()
	version, err := exec.CommandContext(ctx, own.qemu.Program[0], append(slices.Clone(own.qemu.Program[1:]), "--version")...).Output()
	if err != nil {
		return "", err
	}
	binary, err := template.BuildID(b.binary)
	if err != nil {
		return "", err
	}
	return template.Key(template.Version, own.qemu, own.config, own.disk, binary, string(version), template.HostProcessor())
}

// start brings up a machine in which docker answers: from a template, or by
// booting it where there is none or it does not do.
func (b boot) start(ctx context.Context) (*machine, error) {
	t, may := b.template(ctx)
	if !may {
		return b.cold(ctx)
	}
	ready, why := t.Ready(ctx, b.report, func() error { return b.makeTemplate(ctx, t) })
	if !ready {
		vm, err := b.cold(ctx)
		if err == nil && why != nil { // else what keeps it from booting reports why
			b.report("no template could be made: " + why.Error())
		}
		return vm, err
	}
	vm, err := b.fromTemplate(ctx, t)
	if err == nil {
		t.Used()
		return vm, nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	b.report("booting the virtual machine, as its template does not do: " + err.Error())
	vm, err = b.cold(ctx)
	if err == nil { // else it was not the template's fault
		t.Drop()
	}
	return vm, err
}

// fromTemplate brings a machine up as the template was when it was saved, and
// makes it what it is to be. Its devices beyond those of the template come after
// them, and are found by the guest when it is asked to look.
func (b boot) fromTemplate(ctx context.Context, t template.Template) (vm *machine, err error) {
	pinned, err := t.Pin()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			pinned.Close()
			return
		}
		go func() {
			<-vm.Done()
			pinned.Close()
		}()
	}()
	i, err := t.Read()
	if err != nil {
		return nil, err
	}
	if i.Version != template.Version || i.Files[template.Memory].Size != b.qemu.Memory {
		return nil, template.Damaged(t.File(template.Record))
	}
	var memory *os.File // the machine's own
	if b.qemu.SharesMemory() {
		if memory, err = memoryFile(i.Files[template.Memory].Size); err != nil {
			return nil, err
		}
		defer memory.Close()
	}
	result := make(chan error, 1)
	go func() { // while the machine starts
		result <- errors.Join(i.Check(t, template.Memory, memory), i.Check(t, template.State, nil))
	}()
	checked := sync.OnceValue(func() error { return <-result })
	vm, err = b.load(ctx, t, i, memory, checked)
	if cerr := checked(); cerr != nil { // whose consequence the other is
		err = cerr
	}
	if err != nil {
		if vm != nil {
			err = fmt.Errorf("%w: %s", err, vm.LastOutput())
			vm.Kill()
		}
		return nil, err
	}
	if err := b.adopt(ctx, vm); err != nil {
		err = fmt.Errorf("%w: %s", err, vm.LastOutput())
		vm.Kill()
		return nil, err
	}
	return vm, nil
}

// load starts QEMU and gives it the template's state. The machine stays halted.
// Memory of its own is filled meanwhile, and is whole when filled returns.
func (b boot) load(ctx context.Context, t template.Template, i template.Info, memory *os.File, filled func() error) (*machine, error) {
	disk, err := os.Open(t.File(api.ScratchDisk))
	if err != nil {
		return nil, err
	}
	defer disk.Close()
	is, err := template.CopyBlocks(disk, filepath.Join(b.dir, api.ScratchDisk))
	if err == nil && is != i.Files[api.ScratchDisk] {
		err = template.Damaged(disk.Name())
	}
	if err != nil {
		return nil, err
	}
	m := b.assemble()
	m.Type, m.MemoryFile, m.Restore = i.Type, t.File(template.Memory), true
	if memory != nil {
		keepIn(&m, memory)
	}
	if err := os.WriteFile(m.Initrd, make([]byte, 512), 0o600); err != nil { // the kernel runs already
		return nil, err
	}
	state, err := os.ReadFile(t.File(template.State))
	if err != nil {
		return nil, err
	}
	vm, err := b.launch(ctx, m)
	if err != nil {
		return nil, err
	}
	err = vm.monitor.WithoutMemory(ctx, true)
	if err == nil && memory != nil { // the state is compared with it
		err = filled()
	}
	if err == nil {
		err = vm.monitor.LoadState(ctx, bytes.NewReader(state))
	}
	if err == nil { // a snapshot of it has its memory
		err = vm.monitor.WithoutMemory(ctx, false)
	}
	return vm, err
}

// adopt lets a machine from a template continue, and makes it one of its run.
func (b boot) adopt(ctx context.Context, vm *machine) error {
	ctx, cancel := vm.within(ctx, adoptTimeout, fmt.Errorf("the guest did not answer within %v in which it could run", adoptTimeout))
	defer cancel()
	go func() {
		select {
		case <-vm.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := vm.monitor.Continue(ctx); err != nil {
		return err
	}
	if err := vm.meet(ctx, b, 0); err != nil {
		return err
	}
	var err error
	if vm.root, err = b.port(ctx, api.RootPort, 0); err != nil {
		return err
	}
	r := api.AdoptRequest{Config: b.config, Clock: clock()}
	if _, err := rpc.Call(ctx, vm.root, api.CallAdopt, r); err != nil {
		return err
	}
	vm.hello, err = rpc.Call(ctx, vm.containerAgent, api.CallHello, rpc.None{})
	return err
}

// adoptTimeout is how long a guest from a template may take, before another one
// is booted: many times of what it takes under software emulation.
const adoptTimeout = time.Minute

// clock is what wakes a guest that was halted.
func clock() api.ClockRequest {
	r := api.ClockRequest{Seed: make([]byte, 32)}
	rand.Read(r.Seed)
	r.Now = time.Now()
	return r
}
