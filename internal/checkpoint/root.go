package checkpoint

import (
	"context"
	"os"
	"path/filepath"
)

// Root is the place that is a directory, of a disk or of a shared file system:
// each run has one below it. It has to be there: one that is made anew where its
// file system is not mounted would hide what the store holds.
type Root string

// String implements Place.
func (r Root) String() string { return string(r) }

// Run implements Place.
func (r Root) Run(name string) Store { return rooted{Dir(filepath.Join(string(r), name)), r} }

// Runs implements Place.
func (r Root) Runs(context.Context) ([]string, error) {
	all, err := namesIn(string(r))
	var names []string
	for _, name := range all {
		if _, _, ok := ParseRunName(name); !ok {
			continue
		}
		if info, err := os.Lstat(filepath.Join(string(r), name)); err == nil && info.IsDir() {
			names = append(names, name)
		}
	}
	return names, Explain(string(r), err)
}

// Close implements Place.
func (r Root) Close() error { return nil }

// rooted is a run's directory, of which nothing can be told while that above it
// is missing.
type rooted struct {
	Dir
	root Root
}

// there makes sure of the directory above, and that the run's own is no link, by which
// others would have files elsewhere changed.
func (d rooted) there() error {
	if _, err := os.Stat(string(d.root)); err != nil {
		return Explain(string(d.root), err)
	}
	if info, err := os.Lstat(string(d.Dir)); err == nil && !info.IsDir() {
		return displaced(string(d.Dir))
	}
	return nil
}

// List implements Store.
func (d rooted) List(ctx context.Context) ([]Kept, error) {
	if err := d.there(); err != nil {
		return nil, err
	}
	return d.Dir.List(ctx)
}

// Keep implements Store.
func (d rooted) Keep(ctx context.Context, g Generation, site string, from Source) (Manifest, bool, error) {
	if err := d.there(); err != nil {
		return Manifest{}, false, err
	}
	return d.Dir.Keep(ctx, g, site, from)
}

// Note implements Store.
func (d rooted) Note(ctx context.Context, record []byte) error {
	if err := d.there(); err != nil {
		return err
	}
	return d.Dir.Note(ctx, record)
}

// Noted implements Store.
func (d rooted) Noted(ctx context.Context) ([]byte, error) {
	if err := d.there(); err != nil {
		return nil, err
	}
	return d.Dir.Noted(ctx)
}

// Remove implements Store.
func (d rooted) Remove(ctx context.Context) error {
	if err := d.there(); err != nil {
		return err
	}
	return d.Dir.Remove(ctx)
}
