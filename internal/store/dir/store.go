package dir

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
)

// Store is the store in a directory, of a disk or of a shared file system:
// each run has one below it. It has to be there: one that is made again where its
// file system is not mounted would hide what the store holds.
type Store string

// String implements driver.Store.
func (r Store) String() string { return string(r) }

// Run implements driver.Store.
func (r Store) Run(name string) driver.Checkpoints {
	return rooted{Checkpoints(filepath.Join(string(r), name)), r}
}

// Runs implements driver.Store.
func (r Store) Runs(context.Context) ([]string, error) {
	all, err := namesIn(string(r))
	var names []string
	for _, name := range all {
		if _, _, ok := driver.ParseRunName(name); !ok {
			continue
		}
		if info, err := os.Lstat(filepath.Join(string(r), name)); err == nil && info.IsDir() {
			names = append(names, name)
		}
	}
	return names, store.Explain(string(r), err)
}

// Close implements driver.Store.
func (r Store) Close() error { return nil }

// ChecksContent implements driver.Store: a copy is compared before it is sent, where others
// may change it.
func (r Store) ChecksContent() bool { return false }

// Connector implements driver.Store.
func (r Store) Connector() driver.Connector { return nil }

// Bucket implements driver.Store.
func (r Store) Bucket() driver.Bucket { return nil }

// SharedDirectory implements driver.Store.
func (r Store) SharedDirectory() driver.SharedDirectory { return r }

// Path implements driver.SharedDirectory.
func (r Store) Path() string { return string(r) }

// Mark implements driver.SharedDirectory.
func (r Store) Mark(_ context.Context, name string) error {
	if err := markName(name); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(string(r), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return store.Explain(string(r), err)
	}
	return f.Close()
}

// Unmark implements driver.SharedDirectory.
func (r Store) Unmark(_ context.Context, name string) error {
	if err := markName(name); err != nil {
		return err
	}
	return os.Remove(filepath.Join(string(r), name))
}

// markName refuses other files than marks.
func markName(name string) error {
	if !strings.HasPrefix(name, driver.MarkPrefix) || filepath.Base(name) != name {
		return fmt.Errorf("%q is no name of a mark", name)
	}
	return nil
}

// rooted is a run's directory, of which nothing can be reported while that above it
// is missing.
type rooted struct {
	Checkpoints
	root Store
}

// there makes sure of the directory above, and that the run's own is no link, by which
// others would have files elsewhere changed.
func (d rooted) there() error {
	if _, err := os.Stat(string(d.root)); err != nil {
		return store.Explain(string(d.root), err)
	}
	if info, err := os.Lstat(string(d.Checkpoints)); err == nil && !info.IsDir() {
		return displaced(string(d.Checkpoints))
	}
	return nil
}

// List implements driver.Checkpoints.
func (d rooted) List(ctx context.Context) ([]driver.Checkpoint, error) {
	if err := d.there(); err != nil {
		return nil, err
	}
	return d.Checkpoints.List(ctx)
}

// Keep implements driver.Checkpoints.
func (d rooted) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	if err := d.there(); err != nil {
		return driver.Manifest{}, false, err
	}
	return d.Checkpoints.Keep(ctx, g, site, from)
}

// Note implements driver.Checkpoints.
func (d rooted) Note(ctx context.Context, record []byte) error {
	if err := d.there(); err != nil {
		return err
	}
	return d.Checkpoints.Note(ctx, record)
}

// Noted implements driver.Checkpoints.
func (d rooted) Noted(ctx context.Context) ([]byte, error) {
	if err := d.there(); err != nil {
		return nil, err
	}
	return d.Checkpoints.Noted(ctx)
}

// Check implements driver.Checkpoints.
func (d rooted) Check(ctx context.Context, k driver.Checkpoint) error {
	if err := d.there(); err != nil {
		return err
	}
	return d.Checkpoints.Check(ctx, k)
}

// Remove implements driver.Checkpoints.
func (d rooted) Remove(ctx context.Context) error {
	if err := d.there(); err != nil {
		return err
	}
	return d.Checkpoints.Remove(ctx)
}
