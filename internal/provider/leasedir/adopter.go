package leasedir

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// adopterName is the file in a lease's directory that names the installation which controls
// its run, and mostAdopter bounds it, in bytes.
const (
	adopterName = "adopter.json"
	mostAdopter = 4 << 10
)

// Adopters implements driver.Adopters for the lease in a directory.
type Adopters string

// Adopt implements driver.Adopters, under the lock of the lease.
func (dir Adopters) Adopt(ctx context.Context, a driver.Adopter, instead string) (driver.Adopter, error) {
	if err := a.Check(); err != nil {
		return driver.Adopter{}, err
	}
	unlock, err := Lock(ctx, string(dir), false)
	if err != nil {
		return driver.Adopter{}, err
	}
	defer unlock()
	now, err := dir.read()
	seals := a.Installation == "" && a.Ticket != ""
	switch {
	case err != nil || !seals && (a.Installation == "" || now.Installation == a.Installation):
		return now, err
	case seals:
		ticket := a.Ticket
		a = now
		a.Ticket = ticket
	case now.Installation != "" && now.Installation != instead:
		return now, nil
	default:
		a.Ticket, a.Since = now.Ticket, time.Now().UTC().Truncate(time.Second) // by the site's clock
	}
	raw, err := json.Marshal(a)
	if err == nil {
		err = fsutil.WriteFile(filepath.Join(string(dir), adopterName), raw, 0o600)
	}
	if err != nil {
		return now, &core.Error{Kind: core.Transient, Op: "record who controls the run in", Object: string(dir), Err: err, Remedy: "Is there room on the site, and can you write there?"}
	}
	return a, nil
}

func (dir Adopters) read() (driver.Adopter, error) {
	var a driver.Adopter
	raw, err := fsutil.ReadFile(string(dir), adopterName, mostAdopter)
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err == nil {
		err = core.DecodeJSON(raw, &a)
	}
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return a, &core.Error{
			Kind: core.Permanent, Op: "read who controls the run in", Object: filepath.Join(string(dir), adopterName), Err: err,
			Remedy: "The file is damaged. Remove it once no other machine controls the run.",
		}
	}
	return a, nil
}
