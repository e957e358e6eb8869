package vm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/klauspost/compress/zstd"
)

// Files of a saved guest.
const (
	memoryName = "memory.zst"
	packed     = ".zst" // a disk, by its serial number
)

// record is what has to be known of a saved guest to bring it up again: the
// machine must be the same for its software, wherever it is.
type record struct {
	Version  int           `json:"version"`
	Type     string        `json:"type"` // of QEMU's machine
	Accel    string        `json:"accel"`
	CPU      string        `json:"cpu"`
	Topology qemu.Topology `json:"topology"`
	// Features are what its software saw of the processor.
	Features  qemu.Features `json:"features,omitempty"`
	Memory    int64         `json:"memory"` // bytes
	HugePages bool          `json:"huge_pages,omitempty"`
	MTU       int           `json:"mtu,omitempty"` // of the fabric
	Disks     []savedDisk   `json:"disks"`
	// Image is the container image's ID.
	Image  string         `json:"image"`
	Mounts []driver.Mount `json:"mounts"`
	// From is the first byte of the job's output that had not been passed on.
	From int64 `json:"from"`
	Task bool  `json:"task,omitempty"`
	// Login is the account of the user outside, on the first of its hosts.
	Login string `json:"login,omitempty"`
}

// recordVersion is 3: 1 had the machine's devices in another order, and 2 another
// name for memory in huge pages or that others map.
const recordVersion = 3

// savedDisk is a disk of the machine, in order.
type savedDisk struct {
	Serial string `json:"serial"`
	// Digest is of one that is only read, and has to be the same at the other
	// place; the content of any other was saved.
	Digest string `json:"digest,omitempty"`
}

// Save implements driver.Snapshot. Memory and disks go side by side.
func (m *movable) Save(ctx context.Context, dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.halted {
		return errors.New("a guest that runs cannot be saved")
	}
	sums, err := m.sums()
	if err != nil {
		return err
	}
	made := m.machine.made
	r := record{
		Version: recordVersion, Accel: made.Accel, CPU: made.CPU, Topology: made.Topology, Memory: made.Memory, HugePages: made.HugePages,
		Image: m.image, Mounts: m.mounts, From: m.from, Task: m.task, Login: m.login, Disks: make([]savedDisk, len(made.Disks)),
	}
	for _, n := range made.Nets {
		r.MTU = max(r.MTU, n.MTU)
	}
	if r.Type, err = m.machine.monitor.Type(ctx); err != nil {
		return m.lost(err)
	}
	if r.Features, err = m.machine.monitor.Features(ctx); err != nil {
		return m.lost(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	parts := []func() error{func() error {
		return pack(filepath.Join(dir, memoryName), func(w io.Writer) error { return m.machine.monitor.SaveState(ctx, w) })
	}}
	for i, d := range made.Disks {
		r.Disks[i] = savedDisk{d.Serial, sums[d.Serial]}
		if d.ReadOnly {
			continue
		}
		parts = append(parts, func() error {
			return pack(filepath.Join(dir, d.Serial+packed), func(w io.Writer) error { return treesync.Send(ctx, w, d.File, nil) })
		})
	}
	if err := core.Together(parts); err != nil {
		return m.lost(&core.Error{Kind: core.KindOf(err), Op: "save virtual machine", Object: m.spec.Name, Err: err, Remedy: core.Remedy(err)})
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := fsutil.WriteFile(filepath.Join(dir, driver.SavedMachine), raw, 0o600); err != nil {
		return err
	}
	return fsutil.SyncDir(dir)
}

// packBuffer is large, as QEMU writes page by page.
const packBuffer = 1 << 20

// pack writes what fill gives, compressed, into a file that is on the disk when
// it returns.
func pack(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	// The fastest level halves memory as well as any; the node has little.
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(z, packBuffer)
	if err := fill(b); err != nil {
		z.Close()
		return err
	}
	if err := errors.Join(b.Flush(), z.Close()); err != nil {
		return err
	}
	return f.Sync()
}

// unpack gives what pack has written into a directory that another site may have filled.
func unpack(dir, name string, use func(io.Reader) error) error {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return err
	}
	defer z.Close()
	if err := use(z); err != nil {
		return fmt.Errorf("unpack %s: %w", name, err)
	}
	return nil
}

// digests are those of the disks that are only read.
func digests(disks []qemu.Disk) (map[string]string, error) {
	sums := map[string]string{}
	for _, d := range disks {
		if !d.ReadOnly {
			continue
		}
		var err error
		if sums[d.Serial], err = fsutil.Digest(d.File); err != nil {
			return nil, err
		}
	}
	return sums, nil
}
