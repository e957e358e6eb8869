// Package checkpoint keeps runs' checkpoints: each is a copy of the run's volume,
// as an attempt left it or as it was kept while the job ran, and counts once its
// manifest is there, which is written last. What has none is a copy that was cut
// short.
//
// Here are the words that all stores share, and the store that is a directory.
// The package knows no sites, no jobs, and no ways to other machines.
package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Generations is how many checkpoints of a run are kept: the last may turn out
// damaged. See Surplus for which.
const Generations = 2

// ErrDamaged is the cause where a checkpoint is not what its manifest says. The
// one before it may be good.
var ErrDamaged = errors.New("the checkpoint is damaged") //nolint:gochecknoglobals // a constant

// Place is where runs keep their checkpoints.
type Place interface {
	// String is the place as its user wrote it, for people.
	String() string
	// Run gives what a run of a name keeps there; see RunName.
	Run(name string) Store
	// Runs gives the names of all runs that have anything there.
	Runs(ctx context.Context) ([]string, error)
	// Close lets go of the way there.
	Close() error
}

// Checked is what a place is further whose Restore compares all that it brings with the
// manifest on this machine. Of any other, the tree is compared where it has come to.
type Checked interface{ ChecksContent() }

// Store keeps the checkpoints of one run. At most one process may change it at
// a time, which the run's lock sees to.
type Store interface {
	// List gives the checkpoints, oldest first.
	List(ctx context.Context) ([]Kept, error)
	// Keep makes a checkpoint of a tree, and forgets the Surplus. One
	// that is whole already is left as it is: made tells whether it was not. A
	// Keep that was cut short goes on where it was.
	Keep(ctx context.Context, g Generation, site string, from Source) (m Manifest, made bool, err error)
	// Restore brings a checkpoint to a place. ErrDamaged where it is not whole;
	// what was at the place is then left as it was.
	Restore(ctx context.Context, k Kept, to Sink) error
	// Note keeps a run's record beside its checkpoints, in place of the one
	// before, and Noted gives it back, nil where there is none: so another
	// machine can go on with the run.
	Note(ctx context.Context, record []byte) error
	Noted(ctx context.Context) ([]byte, error)
	// Remove removes all that the run has there. What is gone is success.
	Remove(ctx context.Context) error
}

// Source is a tree, wherever it lies, of which a checkpoint is made.
type Source interface {
	// Fetch makes the local directory to a copy of it; before is an earlier copy
	// of which what is the same need not travel, or "".
	Fetch(ctx context.Context, to, before string) error
	// Send begins to send it: the caller writes a treesync.Basis and reads the
	// stream.
	Send(ctx context.Context) (io.ReadWriteCloser, error)
}

// Sink is where a checkpoint shall go.
type Sink interface {
	// Stage makes it a copy of a local directory.
	Stage(ctx context.Context, from string) error
	// Receive begins to receive it: the caller reads what is known there
	// (treesync.ReadKnown), writes the stream, and asks for the outcome.
	Receive(ctx context.Context) (Receiver, error)
}

// Receiver is the far end of a tree that is sent.
type Receiver interface {
	io.ReadWriteCloser
	// Outcome tells, once all is sent, whether it has arrived.
	Outcome() error
}

// RunName is what a run of an installation is called in a store: every object
// of it carries that.
func RunName(user, run string) string { return user + "@" + run }

// ParseRunName is the inverse of RunName.
func ParseRunName(name string) (user, run string, ok bool) {
	user, run, ok = strings.Cut(name, "@")
	return user, run, ok && nameForm.MatchString(user) && nameForm.MatchString(run)
}

// nameForm is what installations and runs can be called.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Manifest holds what a checkpoint consists of, to find damage.
type Manifest struct {
	Attempt int               `json:"attempt"`
	Site    string            `json:"site,omitempty"`
	Taken   time.Time         `json:"taken"`
	Took    time.Duration     `json:"took,omitempty"` // to bring it home
	Files   map[string]string `json:"files"`          // path to a digest of the content, alike for alike in one store
	Bytes   int64             `json:"bytes"`
	// Shape is a digest of the kinds and names of all entries, in a store that is a
	// directory; "": of an earlier version.
	Shape string `json:"shape,omitempty"`
	// Tree is a digest of the volume with names in place of data, in a bucket.
	Tree string `json:"tree_digest,omitempty"`
}

// Digest names a manifest by all that it says: who has it can find out whether a store
// passes the checkpoint that it was given.
func (m Manifest) Digest() string {
	raw, err := json.Marshal(m)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Generation tells checkpoints of a run apart, and orders them by age.
type Generation struct {
	Attempt int
	// Snapshot counts those that were kept while the attempt ran; 0 is the one
	// that it left at its end.
	Snapshot int
}

// String names it: N, or N.K for a snapshot.
func (g Generation) String() string {
	if g.Snapshot == 0 {
		return strconv.Itoa(g.Attempt)
	}
	return strconv.Itoa(g.Attempt) + "." + strconv.Itoa(g.Snapshot)
}

// ParseGeneration is the inverse of String.
func ParseGeneration(name string) (Generation, bool) {
	number, snapshot, is := strings.Cut(name, ".")
	var g Generation
	var err1, err2 error
	g.Attempt, err1 = strconv.Atoi(number)
	if is {
		g.Snapshot, err2 = strconv.Atoi(snapshot)
	}
	return g, err1 == nil && err2 == nil && g.String() == name
}

// Compare orders by age, the older first.
func (g Generation) Compare(o Generation) int {
	switch {
	case g.Attempt != o.Attempt:
		return g.Attempt - o.Attempt
	case g.Snapshot == 0 || o.Snapshot == 0: // an attempt's end is its last
		return o.Snapshot - g.Snapshot
	}
	return g.Snapshot - o.Snapshot
}

// Kept is one checkpoint in a store.
type Kept struct {
	Generation
	Manifest Manifest
	// Place says where it lies, for people.
	Place string
	// Broken tells that its manifest cannot be read: it was whole once.
	Broken bool
	dir    Dir // that it lies in, where it does
}

// Volume is the directory with the copy, in a store that is a directory here.
func (k Kept) Volume() string { return k.dir.Volume(k.Generation) }

// Undamaged tells, in such a store, whether the copy is what its manifest says.
func (k Kept) Undamaged() bool { return k.dir.Undamaged(k) }

// Surplus parts what a store has of a run, oldest first, into what is to go and what
// stays, by what tells of each its generation and whether it is broken. Those that are
// whole stay rather than the broken ones, and the newer rather than the older; but the
// newest of those that attempts have left at their ends stays beside the newest of all:
// copies of a job that goes on may have been made at a moment which was not a good one.
func Surplus[T any](list []T, of func(T) (Generation, bool)) (gone, kept []T) {
	var broken, whole []T
	end := -1
	for _, k := range list {
		g, is := of(k)
		if is {
			broken = append(broken, k)
			continue
		}
		if g.Snapshot == 0 {
			end = len(whole)
		}
		whole = append(whole, k)
	}
	if at := len(whole) - Generations; end >= 0 && end < at {
		k := whole[end]
		whole = slices.Insert(slices.Delete(whole, end, end+1), at, k)
	}
	list = append(broken, whole...)
	n := max(0, len(list)-Generations)
	return list[:n], list[n:]
}
