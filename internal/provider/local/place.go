package local

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/reservation"
)

// leasesDir holds one directory for each lease, in <scratch>/bee.
const leasesDir = ".leases"

// detailsName is the file in a lease's directory that is written last: with
// it, the lease is whole.
const detailsName = "lease.json"

// mostRecord bounds a file in a lease's directory, in bytes.
const mostRecord = 64 << 20

// details are what is known of a whole lease.
type details struct {
	Hosts    []core.Host `json:"hosts"`
	Emulated bool        `json:"emulated,omitempty"`
	Binary   string      `json:"binary,omitempty"`
	// Reserved is the name in the ledger of what the lease takes, which is Reservation.
	Reserved    string                   `json:"reserved,omitempty"`
	Reservation *reservation.Reservation `json:"promise,omitempty"`
}

// prepare makes the directories that all leases of the site are in.
func (p *provider) prepare() error {
	leases := filepath.Join(p.base, leasesDir)
	if err := leasedir.Own(leases); err != nil {
		return err
	}
	if err := leasedir.Own(p.base); err != nil {
		return err
	}
	if p.s.Scratch == DefaultScratch() {
		// In a directory where everybody may make files.
		if err := leasedir.Own(p.s.Scratch); err != nil {
			return err
		}
	}
	return p.noteBase()
}

// basesName is the file in Settings.StateDir with one base on each line.
const basesName = "local-scratch"

// bases gives every base that was ever used, this site's first.
func (p *provider) bases() []string {
	out := []string{p.base}
	if p.s.StateDir == "" {
		return out
	}
	b, _ := os.ReadFile(filepath.Join(p.s.StateDir, basesName))
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); line != p.base && filepath.IsAbs(line) {
			out = append(out, line)
		}
	}
	return out
}

func (p *provider) noteBase() error {
	if p.s.StateDir == "" {
		return nil
	}
	path := filepath.Join(p.s.StateDir, basesName)
	b, err := os.ReadFile(path)
	if err == nil && strings.Contains("\n"+string(b), "\n"+p.base+"\n") {
		return nil
	}
	f, err := fsutil.Append(path, 0o600)
	if err != nil {
		return err
	}
	// One write of one line: appends of several processes do not mix.
	_, err = f.WriteString(p.base + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// readDetails gives the details of a whole lease; NotFound for a half-made one. With any
// other error it is not known which of them it is.
func readDetails(dir string) (details, error) {
	var d details
	b, err := fsutil.ReadFile(dir, detailsName, mostRecord)
	kind := core.NotFound
	if err == nil {
		err = json.Unmarshal(b, &d)
	} else if !errors.Is(err, fs.ErrNotExist) && !fsutil.Spoiled(err) {
		kind = core.Transient
	}
	if err != nil {
		return details{}, &core.Error{Kind: kind, Op: "read lease", Object: dir, Err: err}
	}
	return d, nil
}

func writeDetails(dir string, d details) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(dir, detailsName), b, 0o600)
}
