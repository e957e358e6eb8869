// Package checkpoint keeps a run's checkpoints on disk: each is a copy of the
// run's volume in a directory of its own, as an attempt left it or as it was
// kept while the job ran, and counts once its manifest is there, which is
// written last. A directory without one is a copy that was cut short. The
// package knows no sites and no jobs.
package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

const (
	manifestName = "manifest.json"
	volumeName   = "volume"
	// kept is how many generations are kept: the last may turn out damaged.
	kept = 2
)

// Manifest holds what a checkpoint consists of, to find damage.
type Manifest struct {
	Attempt int               `json:"attempt"`
	Site    string            `json:"site,omitempty"`
	Taken   time.Time         `json:"taken"`
	Took    time.Duration     `json:"took,omitempty"` // to bring it home
	Files   map[string]string `json:"files"`          // path to SHA-256
	Bytes   int64             `json:"bytes"`
}

// Generation tells checkpoints of a run apart, and orders them by age.
type Generation struct {
	Attempt int
	// Snapshot counts those that were kept while the attempt ran; 0 is the one
	// that it left at its end.
	Snapshot int
}

// name is that of the directory: N, or N.K for a snapshot.
func (g Generation) name() string {
	if g.Snapshot == 0 {
		return strconv.Itoa(g.Attempt)
	}
	return strconv.Itoa(g.Attempt) + "." + strconv.Itoa(g.Snapshot)
}

func generationNamed(name string) (Generation, bool) {
	number, snapshot, is := strings.Cut(name, ".")
	var g Generation
	var err1, err2 error
	g.Attempt, err1 = strconv.Atoi(number)
	if is {
		g.Snapshot, err2 = strconv.Atoi(snapshot)
	}
	return g, err1 == nil && err2 == nil && g.name() == name
}

func (g Generation) compare(o Generation) int {
	switch {
	case g.Attempt != o.Attempt:
		return g.Attempt - o.Attempt
	case g.Snapshot == 0 || o.Snapshot == 0: // an attempt's end is its last
		return o.Snapshot - g.Snapshot
	}
	return g.Snapshot - o.Snapshot
}

// Kept is one whole checkpoint.
type Kept struct {
	Generation
	Manifest Manifest
	dir      string
}

// Volume is the directory with the copy.
func (k Kept) Volume() string { return filepath.Join(k.dir, volumeName) }

// Undamaged tells whether the copy is what the manifest says.
func (k Kept) Undamaged() bool {
	files, _, err := sums(k.Volume())
	return err == nil && maps.Equal(files, k.Manifest.Files)
}

// List gives the whole checkpoints below a directory, oldest first.
func List(dir string) ([]Kept, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []Kept
	for _, e := range entries {
		g, ok := generationNamed(e.Name())
		if !ok {
			continue
		}
		k := Kept{Generation: g, dir: filepath.Join(dir, e.Name())}
		if k.Manifest, err = readManifest(k.dir); err == nil {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b Kept) int { return a.compare(b.Generation) })
	return list, nil
}

// Keep makes a checkpoint of what fetch brings into the directory volume, and
// forgets all but the last ones; before is the newest earlier copy, or "". One
// that is whole already is left as it is: made tells whether it was not. between
// is called after each thing that is written, for tests which die there.
func Keep(dir string, g Generation, site string, fetch func(volume, before string) error, between func()) (m Manifest, made bool, err error) {
	own := filepath.Join(dir, g.name())
	if m, err = readManifest(own); err == nil {
		if (Kept{Manifest: m, dir: own}).Undamaged() {
			return m, false, nil
		}
		// Whoever made it did not get to its end; the site still has it whole.
		if err := os.Remove(filepath.Join(own, manifestName)); err != nil {
			return m, false, err
		}
	}
	begun := time.Now()
	if err := os.MkdirAll(own, 0o700); err != nil {
		return m, false, err
	}
	between()
	before := ""
	if list, err := List(dir); err == nil && len(list) > 0 {
		before = list[len(list)-1].Volume()
	}
	volume := filepath.Join(own, volumeName)
	if err := fetch(volume, before); err != nil {
		return m, false, err
	}
	between()
	m = Manifest{Attempt: g.Attempt, Site: site, Taken: time.Now()}
	if m.Files, m.Bytes, err = sums(volume); err != nil {
		return m, false, err
	}
	// All of it has to be on the disk before the old site's copy goes.
	if err := syncTree(own); err != nil {
		return m, false, err
	}
	between()
	m.Took = time.Since(begun)
	raw, err := json.Marshal(m)
	if err != nil {
		return m, false, err
	}
	if err := renameio.WriteFile(filepath.Join(own, manifestName), raw, 0o600); err != nil {
		return m, false, err
	}
	between()
	// Else the loss of power might take the name back.
	if err := syncDir(own); err != nil {
		return m, false, err
	}
	between()
	return m, true, forgetOld(dir, between)
}

func forgetOld(dir string, between func()) error {
	list, err := List(dir)
	if err != nil {
		return err
	}
	for ; len(list) > kept; list = list[1:] {
		// Without its manifest it does not count, whatever is left of it.
		if err := os.Remove(filepath.Join(list[0].dir, manifestName)); err != nil {
			return err
		}
		between()
		if err := filestream.RemoveAll(list[0].dir); err != nil {
			return err
		}
		between()
	}
	return nil
}

func readManifest(dir string) (Manifest, error) {
	var m Manifest
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	return m, err
}

// sums gives the digest of every file and link below a directory.
func sums(root string) (map[string]string, int64, error) {
	files, total := map[string]string{}, int64(0)
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		h := sha256.New()
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			io.WriteString(h, to) //nolint:errcheck // a hash takes all
		case e.Type().IsRegular():
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := io.Copy(h, f)
			if err != nil {
				return err
			}
			total += n
		}
		files[rel] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	return files, total, err
}

// syncDir has the names in a directory written out.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// syncTree has everything on the disk's file system written out.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
