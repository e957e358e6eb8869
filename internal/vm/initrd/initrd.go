// Package initrd writes what a guest's kernel unpacks first: a cpio archive
// ("newc", as the kernel's Documentation/driver-api/early-userspace/
// buffer-format.rst describes it) of the boot modules, BEE's binary and the
// guest's configuration. It is made on the host, for each guest, so that a
// guest image holds no BEE and fits every version.
package initrd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/guest/api"
)

// Write makes the archive.
func Write(w io.Writer, modulesDir, binary string, c api.Config) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	a := &archive{w: w}
	for _, dir := range []string{"dev", "proc", "sys", "lower", "upper", "root", api.ModulesPath} {
		a.entry(dir, modeDir|0o755, 0)
	}
	a.file(api.ConfigPath, raw)
	modules, err := filepath.Glob(filepath.Join(modulesDir, "*.ko")) // sorted
	if err != nil {
		return err
	}
	for _, m := range modules {
		a.copy(path.Join(api.ModulesPath, filepath.Base(m)), m, 0o644)
	}
	a.copy(api.BinaryPath, binary, 0o755)
	a.entry("TRAILER!!!", 0, 0)
	return a.err
}

const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

type archive struct {
	w     io.Writer
	inode int
	err   error
}

func (a *archive) entry(name string, mode, size int64) {
	a.inode++
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", a.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0)
	a.write([]byte(header + name + "\x00"))
	a.pad(int64(len(header) + len(name) + 1))
}

// pad fills up to a multiple of four.
func (a *archive) pad(written int64) { a.write(make([]byte, (4-written%4)%4)) }

func (a *archive) write(raw []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(raw)
	}
}

func (a *archive) file(name string, raw []byte) {
	a.entry(name, modeFile|0o600, int64(len(raw)))
	a.write(raw)
	a.pad(int64(len(raw)))
}

func (a *archive) copy(name, from string, mode int64) {
	if a.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.entry(name, modeFile|mode, info.Size())
	if a.err == nil {
		_, a.err = io.CopyN(a.w, f, info.Size())
	}
	a.pad(info.Size())
}
