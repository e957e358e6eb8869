package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/vm/template"
	"golang.org/x/sys/unix"
)

// makeTemplate boots a guest of no run, and saves it once it is ready.
func (b boot) makeTemplate(ctx context.Context, t template.Template) error {
	own := b.impersonal()
	dir, err := t.Begin()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	memory, err := memoryFile(own.qemu.Memory)
	if err != nil {
		return err
	}
	defer memory.Close()
	keepIn(&own.qemu, memory)
	vm, err := own.begin(ctx)
	if err != nil {
		return err
	}
	defer vm.Kill()
	if err := vm.awaitReady(ctx); err != nil {
		return fmt.Errorf("%w: %s", err, vm.LastOutput())
	}
	if err := errors.Join(vm.monitor.Stop(ctx), vm.monitor.WithoutMemory(ctx, true)); err != nil {
		return err
	}
	i := template.Info{Version: template.Version, Files: map[string]template.Content{}}
	if i.Type, err = vm.monitor.Type(ctx); err != nil {
		return err
	}
	state, err := os.OpenFile(filepath.Join(dir, template.State), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer state.Close()
	if err := vm.monitor.SaveState(ctx, state); err != nil {
		return err
	}
	scratch, err := os.Open(filepath.Join(own.dir, api.ScratchDisk))
	if err != nil {
		return err
	}
	defer scratch.Close()
	if i.Files[template.State], err = template.ReadBlocks(state, nil); err != nil {
		return err
	}
	if i.Files[api.ScratchDisk], err = template.CopyBlocks(scratch, filepath.Join(dir, api.ScratchDisk)); err != nil {
		return err
	}
	if i.Files[template.Memory], err = template.CopyBlocks(memory, filepath.Join(dir, template.Memory)); err != nil {
		return err
	}
	return t.Commit(dir, i)
}

// memoryFile is a file in memory, for a guest's.
func memoryFile(size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate("bee-template", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "memory")
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// keepIn has a machine's memory be a file that is open here.
func keepIn(m *qemu.Machine, memory *os.File) {
	m.MemoryFile, m.KeepMemory, m.ExtraFiles = "/proc/self/fd/"+qemu.FD(0), true, []*os.File{memory}
}

// awaitReady waits until a guest that is to be a template says that it is ready: by
// its console, so that nobody has spoken with it when it is saved.
func (vm *machine) awaitReady(ctx context.Context) error {
	ctx, cancel := vm.unlessStuck(ctx, bootTimeout)
	defer cancel()
	for {
		text, err := os.ReadFile(vm.made.Console)
		if err == nil && bytes.Contains(text, []byte(api.Ready)) {
			return nil
		}
		select {
		case <-vm.Done():
			return &core.Error{Kind: core.Permanent, Op: "boot virtual machine", Err: fmt.Errorf("it ended (%s)", vm.State()), Remedy: "`bee doctor` boots a guest, and prints the end of its console."}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond): // nothing reports when its console has a new line
		}
	}
}
