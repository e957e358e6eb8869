// Package generation keeps the checkpoints of a run on the remote of its burst buffer. A generation is
// everything that the remote had at one moment. What is changed afterwards is noted before, and files
// are kept, so that Reset brings the remote back to that moment. The last two generations stay whole.
//
// Generation N has the directory .bee/generations/N there: a marker, a note for each name that was changed
// after it, and the files that were at these names. The package knows nothing of buffers and mounts.
package generation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Remote is what generations need of a remote: see remote.Remote.
type Remote interface {
	drain.Remote
	List(dir string) ([]remote.Entry, error)
	Open(name string) (remote.Source, error)
	Keep(from, to string, ours remote.Version) error
}

// kept is how many generations stay whole.
const kept = 2

const (
	markerName = "generation.json"
	noteSuffix = ".json"
	dataSuffix = ".data"
	mostNote   = 1 << 20
	mostOurs   = 8 // things in a note that the volume was about to put at a name
)

// marker is the record of a generation.
type marker struct {
	Run    string    `json:"run"`
	Number int       `json:"number"`
	Time   time.Time `json:"time"`
	Also   []string  `json:"also,omitempty"` // names that belong to it, beside those that match
}

// note is what was at a name at the time of a generation, and what may be there by the volume now.
type note struct {
	Path string        `json:"path"`
	Was  drain.Thing   `json:"was"`
	Ours []drain.Thing `json:"ours"`

	at remote.Version // of the note itself
}

// Generations are those of one run on a remote.
type Generations struct {
	remote Remote
	run    string
	globs  []string
	now    int
	also   []string         // of now
	notes  map[string]*note // of now, by path; nil: they were not read yet, and neither was also
}

// New returns the generations of a run, to which the names belong that globs match, with all that is in
// them; none: all names.
func New(r Remote, run string, globs []string) *Generations {
	return &Generations{remote: r, run: run, globs: globs}
}

// covers reports whether a name belongs to the newest generation, or is a directory in which something does.
func (g *Generations) covers(name string) bool {
	return len(g.globs) == 0 || MayContain(g.globs, name) ||
		slices.ContainsFunc(g.also, func(a string) bool { return within(name, a) || within(a, name) })
}

// within reports whether a name is a directory, or in it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// Belongs reports whether a name belongs to a generation of what patterns match, and of further names with
// all that is in them.
func Belongs(globs, also []string, name string) bool {
	return Matches(globs, name) || slices.ContainsFunc(also, func(a string) bool { return within(name, a) })
}

// Matches reports whether a pattern matches a name, or a directory that the name is in.
func Matches(globs []string, name string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool {
		return glob == "." || strings.Count(glob, "/") <= strings.Count(name, "/") && matches(glob, name)
	})
}

// MayContain reports whether something that a pattern matches may be in a directory.
func MayContain(globs []string, dir string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return glob == "." || matches(glob, dir) })
}

// matches reports whether a pattern matches a name, a directory that the name is in, or may match something
// that is in it.
func matches(glob, name string) bool {
	g, n := strings.Split(glob, "/"), strings.Split(name, "/")
	for i := range min(len(g), len(n)) {
		if ok, err := path.Match(g[i], n[i]); !ok || err != nil {
			return false
		}
	}
	return true
}

// At has the generations continue after that of a number, which is the newest one.
func (g *Generations) At(number int) { g.now, g.notes = number, nil }

// Now is the number of the newest generation; 0: there is none.
func (g *Generations) Now() int { return g.now }

func dirOf(number int) string { return path.Join(remote.Generations, strconv.Itoa(number)) }

func noteOf(number int, name string) string {
	sum := sha256.Sum256([]byte(name))
	return path.Join(dirOf(number), hex.EncodeToString(sum[:16])+noteSuffix)
}

// inoOf is the number by which a name is sent or removed: no file of a volume has it.
func inoOf(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:]) | 1<<63
}

func dataOf(note string) string { return strings.TrimSuffix(note, noteSuffix) + dataSuffix }

// Numbers lists the generations of the run that the remote has, oldest first. What is left of some without
// a marker is listed in garbage. Those of another run are an error. Names that are no numbers stay.
func (g *Generations) Numbers() (numbers []int, garbage []string, err error) {
	entries, err := g.remote.List(remote.Generations)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		n, nerr := strconv.Atoi(e.Name)
		if nerr != nil || n <= 0 || dirOf(n) != path.Join(remote.Generations, e.Name) || e.Kind != remote.Dir {
			continue
		}
		var m marker
		err := g.read(path.Join(dirOf(n), markerName), &m)
		switch {
		case err == nil && m.Number == n && m.Run == g.run:
			numbers = append(numbers, n)
		case err == nil && m.Run != g.run && m.Run != "":
			return nil, nil, &core.Error{
				Kind: core.Busy, Op: "use remote", Object: path.Join(dirOf(n), markerName), Err: fmt.Errorf("%w: run %s has checkpoints there", ErrOther, core.Printable(m.Run, 40)),
				Remedy: "Name another `remote:`. If that run is over, remove " + remote.Generations + " there.",
			}
		case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnread):
			garbage = append(garbage, path.Join(remote.Generations, e.Name))
		default:
			return nil, nil, err
		}
	}
	slices.Sort(numbers)
	return numbers, garbage, nil
}

// ErrOther is the cause where the remote has checkpoints of another run.
var ErrOther = errors.New("they are not those of this run")

// errUnread is about a record that has no meaning.
var errUnread = errors.New("it is no record of a checkpoint")

// read reads a small record.
func (g *Generations) read(name string, into any) error {
	_, err := g.readAt(name, into)
	return err
}

func (g *Generations) readAt(name string, into any) (remote.Version, error) {
	s, err := g.remote.Open(name)
	if err != nil {
		return remote.Version{}, err
	}
	defer s.Close()
	v := s.Version()
	if v.Size <= 0 || v.Size > mostNote {
		return v, fmt.Errorf("read %s: %w", name, errUnread)
	}
	raw := make([]byte, v.Size)
	for at := 0; at < len(raw); {
		n, err := s.Read(context.Background(), raw[at:], int64(at))
		if err != nil {
			return v, err
		}
		if n == 0 {
			return v, fmt.Errorf("read %s: %w", name, errUnread)
		}
		at += n
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return v, fmt.Errorf("read %s: %w", name, errUnread)
	}
	return v, nil
}

// write writes a small record in the place of the version expect.
func (g *Generations) write(ctx context.Context, name string, record any, expect remote.Version) (remote.Version, error) {
	raw, err := json.Marshal(record)
	if err != nil {
		return expect, err
	}
	if err := g.remote.Ensure(path.Dir(name)); err != nil {
		return expect, err
	}
	c := remote.Content{
		Size: int64(len(raw)), Mode: 0o600, Mtime: time.Now().UnixNano(),
		Data: func(put func(int64, []byte) error) error { return put(0, raw) },
		At: func(p []byte, off int64) error {
			_, err := bytes.NewReader(raw).ReadAt(p, off)
			return err
		},
	}
	partial, ours, err := g.remote.Write(ctx, name, inoOf(name), c)
	if err != nil {
		return expect, err
	}
	return g.remote.Publish(partial, name, ours, expect)
}

// remove removes a file of a generation, if it is there.
func (g *Generations) remove(name string) error {
	e, err := g.remote.Stat(name)
	if err == nil {
		err = g.remote.Remove(name, inoOf(name), e.Version)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}

// removeDir removes what is in a directory of generations, and that. A marker goes first.
func (g *Generations) removeDir(dir string) error {
	err := g.remove(path.Join(dir, markerName))
	if err != nil {
		return err
	}
	entries, err := g.remote.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name)
		switch {
		case err != nil:
		case e.Kind == remote.Dir:
			err = g.removeDir(name)
		default:
			err = g.remote.Remove(name, inoOf(name), e.Version)
		}
	}
	if err == nil {
		err = g.remote.Rmdir(dir)
	}
	return err
}

// removeDirs removes directories of generations, in order.
func (g *Generations) removeDirs(dirs []string) error {
	for _, dir := range dirs {
		if err := g.removeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Touch notes what is at the names that an operation changes, where that is their first change after the
// newest generation. One of them that belongs to it has all noted: what a file was moved from, too. Once
// Touch has returned nil, the names may be changed.
func (g *Generations) Touch(ctx context.Context, touches []drain.Touch) error {
	if g.now == 0 || len(touches) == 0 {
		return nil
	}
	if err := g.load(); err != nil {
		return err
	}
	if !slices.ContainsFunc(touches, func(t drain.Touch) bool { return g.covers(t.Path) || g.notes[t.Path] != nil }) {
		return nil
	}
	for _, t := range touches {
		if err := g.touch(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (g *Generations) touch(ctx context.Context, t drain.Touch) error {
	name := noteOf(g.now, t.Path)
	next := note{Path: t.Path}
	if n := g.notes[t.Path]; n != nil {
		if n.Ours[len(n.Ours)-1] == t.Will {
			return nil
		}
		// The changes before this one were carried out, or not: a file that was sent may be sent again.
		next.Was, next.Ours, next.at = n.Was, slices.Clone(n.Ours[max(0, len(n.Ours)-mostOurs+1):]), n.at
	} else {
		e, err := g.remote.Stat(t.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case e.Kind == remote.Other:
			return nil // it is never changed
		default:
			next.Was = drain.ThingOf(e)
		}
		if next.Was.Kind == remote.File {
			if err := g.remote.Ensure(dirOf(g.now)); err != nil {
				return err
			}
			if err := g.remote.Keep(t.Path, dataOf(name), next.Was.Version); err != nil {
				return err
			}
		}
	}
	next.Ours = append(next.Ours, t.Will)
	at, err := g.write(ctx, name, next, next.at)
	if err != nil {
		g.notes = nil // it may have been written
		return err
	}
	next.at = at
	g.notes[t.Path] = &next
	return nil
}

// load reads the notes of the newest generation.
func (g *Generations) load() error {
	if g.notes != nil {
		return nil
	}
	var m marker
	if err := g.read(path.Join(dirOf(g.now), markerName), &m); err != nil {
		return err
	}
	notes, err := g.notesOf(g.now)
	if err == nil {
		g.notes, g.also = notes, m.Also
	}
	return err
}

// notesOf reads the notes of a generation.
func (g *Generations) notesOf(number int) (map[string]*note, error) {
	entries, err := g.remote.List(dirOf(number))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	notes := map[string]*note{}
	for _, e := range entries {
		if e.Name == markerName || !strings.HasSuffix(e.Name, noteSuffix) {
			continue
		}
		n, name := &note{}, path.Join(dirOf(number), e.Name)
		if n.at, err = g.readAt(name, n); err != nil {
			return nil, err
		}
		if !fs.ValidPath(n.Path) || n.Path == "." || n.Path == remote.Directory || strings.HasPrefix(n.Path, remote.Directory+"/") || len(n.Ours) == 0 || noteOf(number, n.Path) != name {
			return nil, fmt.Errorf("read %s: %w", name, errUnread)
		}
		notes[n.Path] = n
	}
	return notes, nil
}

// Record makes a generation of what the remote has now, and removes those that are too old.
func (g *Generations) Record(ctx context.Context, number int, also []string) error {
	name := path.Join(dirOf(number), markerName)
	var m marker
	err := g.read(name, &m)
	switch {
	case err == nil && m.Run == g.run && m.Number == number: // before a crash
	case err == nil, errors.Is(err, errUnread):
		return fmt.Errorf("record checkpoint %d: something else is at %s", number, name)
	case errors.Is(err, fs.ErrNotExist):
		if _, err := g.write(ctx, name, marker{Run: g.run, Number: number, Time: time.Now(), Also: also}, remote.Version{}); err != nil {
			return err
		}
	default:
		return err
	}
	g.now, g.notes = number, nil
	numbers, garbage, err := g.Numbers()
	if err != nil {
		return err
	}
	for _, old := range numbers {
		if old <= number-kept {
			garbage = append(garbage, dirOf(old))
		}
	}
	return g.removeDirs(garbage)
}

// RemoveAll removes all generations, the newest first.
func (g *Generations) RemoveAll() error {
	numbers, garbage, err := g.Numbers()
	if err != nil {
		return err
	}
	slices.Reverse(numbers)
	for _, n := range numbers {
		garbage = append(garbage, dirOf(n))
	}
	if err := g.removeDirs(garbage); err != nil {
		return err
	}
	g.now, g.notes = 0, nil
	if err := g.remote.Rmdir(remote.Generations); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, remote.ErrForeign) {
		return err
	}
	return nil
}

// Start begins an attempt that continues from the generation of a number, or that is the first one:
// number 0. The remote then has what it had at that generation, or at a newer one; a run without any
// gets the first. It returns the generation and the names of foreign changes, beside which files were
// restored.
func (g *Generations) Start(ctx context.Context, number int) (now int, conflicts []Conflict, err error) {
	numbers, garbage, err := g.Numbers()
	if err != nil {
		return 0, nil, err
	}
	if err := g.removeDirs(garbage); err != nil {
		return 0, nil, err
	}
	if len(numbers) == 0 {
		if number > 0 {
			return 0, nil, &core.Error{
				Kind: core.Permanent, Op: "continue from checkpoint", Object: strconv.Itoa(number), Err: errors.New("the remote of the burst buffer has no checkpoint of the run"),
				Remedy: "Something has removed " + remote.Generations + " there. Restore it, or run the job again.",
			}
		}
		return 1, nil, g.Record(ctx, 1, nil)
	}
	to := numbers[len(numbers)-1]
	if number > to {
		return 0, nil, &core.Error{
			Kind: core.Permanent, Op: "continue from checkpoint", Object: strconv.Itoa(number), Err: fmt.Errorf("the newest that the remote of the burst buffer has is %d", to),
			Remedy: "Restore " + remote.Generations + " there, or run the job again.",
		}
	}
	if number == 0 { // the run begins again
		to = numbers[0]
	}
	conflicts, err = g.reset(numbers, to)
	return g.now, conflicts, err
}
