package disk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Disk is one that is kept.
type Disk struct {
	Name string `json:"name"`
	// ID is the digest of its content, "sha256:" and hexadecimal digits.
	ID string `json:"id"`
	// Size is in bytes. Holes of the file are not taken off.
	Size int64     `json:"size_bytes"`
	Arch string    `json:"arch"`
	Made time.Time `json:"made"`
	// Guest is the id of the guest image that it is made of.
	Guest string `json:"guest"`
}

// Short is the beginning of the id, for people.
func (d Disk) Short() string { return strings.TrimPrefix(d.ID, "sha256:")[:12] }

// Store is where the disks of a cache are kept.
type Store struct{ dir string }

// Open opens the store of a cache, which need not be there yet.
func Open(cache string) *Store { return &Store{filepath.Join(cache, "disks")} }

// nameForm is the form of names. A record's name is never taken for anything else.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// CheckName refuses what is no name of a disk.
func CheckName(name string) error {
	if nameForm.MatchString(name) {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "name an image of machines", Object: core.Printable(name, 80), Err: errors.New("a name has small letters, digits, dots, hyphens and underscores, at most 63"),
		Remedy: "Use a name such as hpc or lab-2026.",
	}
}

const recordEnding = ".json"

// mostRecord bounds the file of a record, in bytes.
const mostRecord = 1 << 16

// Path is the file of a disk.
func (s *Store) Path(d Disk) string {
	return filepath.Join(s.dir, strings.TrimPrefix(d.ID, "sha256:")+".raw")
}

func (s *Store) record(name string) string { return filepath.Join(s.dir, name+recordEnding) }

// lock keeps others from changing the store.
func (s *Store) lock(ctx context.Context) (*fsutil.Lock, error) {
	if err := fsutil.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	return fsutil.LockFile(ctx, filepath.Join(s.dir, "lock"))
}

// Add makes a disk by a function, and keeps it by its name, which another disk loses.
func (s *Store) Add(ctx context.Context, d Disk, write func(*os.File) error) (Disk, error) {
	if err := CheckName(d.Name); err != nil {
		return Disk{}, err
	}
	l, err := s.lock(ctx)
	if err != nil {
		return Disk{}, err
	}
	defer l.Unlock()
	f, err := os.OpenFile(filepath.Join(s.dir, "new"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600) // one at a time: what an end in the middle left is overwritten
	if err != nil {
		return Disk{}, err
	}
	defer f.Close()
	defer fsutil.TryRemove(f.Name())
	if err := cmp.Or(write(f), f.Sync()); err != nil {
		return Disk{}, err
	}
	sum := sha256.New()
	if d.Size, err = io.Copy(sum, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return Disk{}, err
	}
	d.ID = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	if _, err := s.Get(d.Name); err != nil && !core.IsKind(err, core.NotFound) {
		return Disk{}, err
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return Disk{}, err
	}
	if err := fsutil.Rename(f.Name(), s.Path(d)); err != nil {
		return Disk{}, err
	}
	if err := fsutil.WriteFile(s.record(d.Name), raw, 0o600); err != nil {
		return Disk{}, err
	}
	return d, s.clean()
}

// fileForm is the form of the files of disks.
var fileForm = regexp.MustCompile(`^[0-9a-f]{64}\.raw$`)

// clean removes the files of disks that no record names: of names that are gone or have another disk, and what an end in
// the middle left. The caller has the lock. While a record cannot be read, whose file is not known, it removes nothing.
func (s *Store) clean() error {
	all, err := s.List()
	if err != nil {
		return nil // List reports it
	}
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var failed error
	for _, f := range files {
		named := slices.ContainsFunc(all, func(d Disk) bool { return filepath.Base(s.Path(d)) == f.Name() })
		if named || !fileForm.MatchString(f.Name()) || !f.Type().IsRegular() {
			continue
		}
		failed = errors.Join(failed, os.Remove(filepath.Join(s.dir, f.Name())))
	}
	return failed
}

// List returns all disks, by name.
func (s *Store) List() ([]Disk, error) {
	files, err := filepath.Glob(filepath.Join(fsutil.QuoteGlob(s.dir), "*"+recordEnding)) // sorted
	if err != nil {
		return nil, err
	}
	all := []Disk{}
	for _, file := range files {
		d, err := s.Get(strings.TrimSuffix(filepath.Base(file), recordEnding))
		if core.IsKind(err, core.NotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// idForm is the form of ids.
var idForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Get returns the disk of a name.
func (s *Store) Get(name string) (Disk, error) {
	if err := CheckName(name); err != nil {
		return Disk{}, err
	}
	raw, err := fsutil.ReadFile(s.dir, name+recordEnding, mostRecord)
	if errors.Is(err, os.ErrNotExist) {
		return Disk{}, &core.Error{
			Kind: core.NotFound, Op: "find the image of machines", Object: name, Err: errors.New("there is none of that name here"),
			Remedy: fmt.Sprintf("Build it by `bee cloud image build %s`; `bee cloud image ls` lists those that there are.", name),
		}
	}
	var d Disk
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err == nil && (d.Name != name || !idForm.MatchString(d.ID)) {
		err = errors.New("its name or its id is none")
	}
	if err != nil {
		return Disk{}, &core.Error{Kind: core.Permanent, Op: "read the record of the image of machines", Object: s.record(name), Err: err, Remedy: "Remove this file, and build the image again."}
	}
	return d, nil
}

// Remove removes a disk's name, and its file where no other name has it.
func (s *Store) Remove(ctx context.Context, name string) error {
	l, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock()
	if _, err := s.Get(name); err != nil {
		return err
	}
	if err := os.Remove(s.record(name)); err != nil {
		return err
	}
	return s.clean()
}
