package driver

import (
	"context"
	"io"
	"regexp"
	"strings"
)

// Store is where runs keep their checkpoints.
type Store interface {
	// String is the store as its user wrote it, for people.
	String() string
	// Run returns the checkpoints of a run in the store, by its RunName.
	Run(name string) Checkpoints
	// Runs returns the names of all runs with anything in the store.
	Runs(ctx context.Context) ([]string, error)
	// ChecksContent reports whether Restore compares all data with the manifest on this
	// machine. Of any other store, the tree is compared at its destination.
	ChecksContent() bool
	// Close ends the connection to the store.
	Close() error

	// SharedDirectory, Connector and Bucket return a capability group of the store, nil where
	// it has none.
	SharedDirectory() SharedDirectory
	Connector() Connector
	Bucket() Bucket
}

// Bucket is that of a store of objects. The host of a tree stores its data there by itself, with requests that this
// machine has signed, each for one object of the run.
type Bucket interface {
	// KeepBy is Checkpoints.Keep of a run's tree whose data a host uploads. Unsupported: it does not reach the bucket.
	KeepBy(ctx context.Context, run string, g Generation, site string, upload Upload) (m Manifest, made bool, err error)
}

// Upload has a host store the data of a tree as objects, and returns what the checkpoint consists of. What the host asks for
// is answered by sign.
type Upload func(ctx context.Context, sign SignObject) (manifest []byte, err error)

// SignObject answers what a host asks about the objects of a run.
type SignObject func(ctx context.Context, q ObjectRequest) (ObjectAnswer, error)

// ObjectRequest is about an object of a run, or about all of them whose names begin alike.
type ObjectRequest struct {
	Op   ObjectOp `json:"op"`
	Name string   `json:"name"`
	// Size is that of an object to store.
	Size int64 `json:"size,omitempty"`
}

// ObjectOp is what is to be done with an object.
type ObjectOp string

// Operations on objects.
const (
	ListObjects ObjectOp = "list"
	ReadObject  ObjectOp = "read"
	StoreObject ObjectOp = "store"
)

// ObjectAnswer answers an ObjectRequest.
type ObjectAnswer struct {
	// URL is where the object is read or stored, without credentials and for a short time.
	URL string `json:"url,omitempty"`
	// There means that the object is there already: it is not stored again.
	There bool `json:"there,omitempty"`
	// List has the sizes of objects by their names.
	List map[string]int64 `json:"list,omitempty"`
}

// Checkpoints are those of one run in a store. At most one process may change them at a
// time, which the run's lock ensures.
type Checkpoints interface {
	// List returns the checkpoints, oldest first.
	List(ctx context.Context) ([]Checkpoint, error)
	// Keep makes a checkpoint of a tree, and removes surplus ones. One that is whole
	// already stays as it is, and made is false. A Keep that was cut short resumes.
	Keep(ctx context.Context, g Generation, site string, from Source) (m Manifest, made bool, err error)
	// Restore copies a checkpoint to a tree. ErrDamaged: it is not whole; the tree is then
	// as it was.
	Restore(ctx context.Context, k Checkpoint, to Sink) error
	// Check returns ErrDamaged where a checkpoint is known not to be whole. It reads no data
	// through this machine; a store that ChecksContent leaves the data to Restore.
	Check(ctx context.Context, k Checkpoint) error
	// Note stores a run's record beside its checkpoints, in place of the one before, so
	// that another machine can continue the run. Noted returns it; nil: there is none.
	Note(ctx context.Context, record []byte) error
	Noted(ctx context.Context) ([]byte, error)
	// Remove removes all of the run's. What is gone is success.
	Remove(ctx context.Context) error
}

// SharedDirectory is that of a store in a directory on some machine, which others may
// see too. A file in it with a random name finds out whether one does.
type SharedDirectory interface {
	// Path is the directory as its user wrote it. A relative one begins at the user's
	// home directory.
	Path() string
	// Mark makes an empty file in it; its name begins with MarkPrefix. Unmark removes it.
	Mark(ctx context.Context, name string) error
	Unmark(ctx context.Context, name string) error
}

// MarkPrefix begins the names of marks in a SharedDirectory.
const MarkPrefix = ".bee-mark-"

// Source is a tree, wherever it lies, of which a checkpoint is made.
type Source interface {
	// Fetch makes the local directory to a copy of it. before is an earlier copy, whose
	// unchanged files need not travel; "": there is none.
	Fetch(ctx context.Context, to, before string) error
	// Send begins to send it: the caller writes a treesync.Basis and reads the
	// stream.
	Send(ctx context.Context) (io.ReadWriteCloser, error)
	// Direct returns the connection by which the tree goes to the store; nil: it comes
	// through this machine.
	Direct() *Connection
}

// Sink is a tree that becomes a copy of a checkpoint.
type Sink interface {
	// Stage makes it a copy of a local directory.
	Stage(ctx context.Context, from string) error
	// Receive begins to receive it: the caller reads what is known there
	// (treesync.ReadKnown), writes the stream, and asks for the outcome.
	Receive(ctx context.Context) (Receiver, error)
	// Direct is as that of a Source.
	Direct() *Connection
}

// Connection joins the machine of a tree and that of a store: the tree does not come
// through this machine.
type Connection struct {
	// Name is that of the RendezvousSpec.
	Name string
	// Progress is called with the bytes of the tree that have been sent, once in a while.
	Progress func(done int64)
	// Close ends it, and with it all transfers over it.
	Close func()
}

// RunName is the name of an installation's run in a store. Every object of it carries
// that.
func RunName(user, run string) string { return user + "@" + run }

// ParseRunName is the inverse of RunName.
func ParseRunName(name string) (user, run string, ok bool) {
	user, run, ok = strings.Cut(name, "@")
	return user, run, ok && isName(user) && isName(run)
}

// nameForm is the form of the names of installations and runs. The bound is not in the
// pattern: every start of bee would unfold it.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

const longestName = 64

func isName(text string) bool { return len(text) <= longestName && nameForm.MatchString(text) }
