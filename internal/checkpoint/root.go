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
	entries, err := os.ReadDir(string(r))
	var names []string
	for _, e := range entries {
		if _, _, ok := ParseRunName(e.Name()); ok && e.IsDir() {
			names = append(names, e.Name())
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

func (d rooted) there() error {
	_, err := os.Stat(string(d.root))
	return Explain(string(d.root), err)
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
