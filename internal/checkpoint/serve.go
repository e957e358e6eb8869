package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// Request asks another machine for something in a store that is a directory
// there.
type Request struct {
	Op string `json:"op"`
	// Dir is that of the run; of all runs for OpRuns, OpMark and OpUnmark. What
	// is not absolute starts at the user's home directory.
	Dir        string            `json:"dir"`
	Generation driver.Generation `json:"generation"`
	Site       string            `json:"site,omitempty"`
	Kept       driver.Checkpoint `json:"kept"`
	// Path is the tree, on that machine, to keep, to restore, or to compare; or the mark.
	Path   string `json:"path,omitempty"`
	Record []byte `json:"record,omitempty"`
}

// What can be asked for.
const (
	OpList    = "list"
	OpKeep    = "keep"
	OpRestore = "restore"
	OpCheck   = "check" // whether a checkpoint is undamaged
	OpSame    = "same"  // whether the tree is what a checkpoint consists of
	OpNote    = "note"
	OpNoted   = "noted"
	OpRemove  = "remove"
	OpRuns    = "runs"
	OpMark    = "mark"
	OpUnmark  = "unmark"
)

// Reply answers a Request.
type Reply struct {
	Manifest driver.Manifest     `json:"manifest"`
	Made     bool                `json:"made,omitempty"`
	Damaged  bool                `json:"damaged,omitempty"`
	List     []driver.Checkpoint `json:"list,omitempty"`
	Record   []byte              `json:"record,omitempty"`
	Runs     []string            `json:"runs,omitempty"`
}

// Serve does what a Request asks for, on this machine.
func Serve(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var q Request
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	dir, err := Absolute(q.Dir)
	if err != nil {
		return nil, err
	}
	var (
		r   Reply
		own = Root(filepath.Dir(dir)).Run(filepath.Base(dir))
	)
	switch q.Op {
	case OpList:
		r.List, err = own.List(ctx)
	case OpKeep:
		r.Manifest, r.Made, err = own.Keep(ctx, q.Generation, q.Site, Tree(q.Path))
	case OpRestore:
		err = own.Restore(ctx, q.Kept, Tree(q.Path))
	case OpCheck:
		err = own.Check(ctx, q.Kept)
	case OpSame:
		same := false
		same, err = Matches(q.Path, q.Kept.Manifest)
		r.Damaged = err == nil && !same
	case OpNote:
		err = own.Note(ctx, q.Record)
	case OpNoted:
		r.Record, err = own.Noted(ctx)
	case OpRemove:
		err = own.Remove(ctx)
	case OpRuns:
		r.Runs, err = Root(dir).Runs(ctx)
	case OpMark:
		err = Root(dir).Mark(ctx, filepath.Base(q.Path))
	case OpUnmark:
		err = Root(dir).Unmark(ctx, filepath.Base(q.Path))
	default:
		err = fmt.Errorf("a store is asked for %q, which this bee does not know", q.Op)
	}
	if errors.Is(err, driver.ErrDamaged) {
		r.Damaged, err = true, nil
	}
	if err != nil {
		return nil, Explain(dir, err)
	}
	return json.Marshal(r)
}

// Answer reads what Serve has given.
func Answer(raw json.RawMessage, err error) (Reply, error) {
	var r Reply
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, err
	}
	if r.Damaged {
		return r, driver.ErrDamaged
	}
	return r, nil
}

// Absolute makes a directory's name absolute: what is not starts at the home
// directory.
func Absolute(dir string) (string, error) {
	if filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, dir), err
}

// Explain gives what failed in a store's directory a kind and a remedy.
func Explain(dir string, err error) error {
	kind, remedy := core.KindOf(err), core.Remedy(err)
	switch {
	case err == nil || kind == core.Stopped || errors.Is(err, driver.ErrDamaged):
		return err
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		remedy = "Do you own it, and may you write there?"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		remedy = "Free some space there, or ask for a larger quota."
	case kind != core.NotFound && errors.Is(err, fs.ErrNotExist):
		// It is not made: it may lie on a file system that is not mounted.
		kind, remedy = core.Transient, "Make it, or mount the file system that it lies on."
		if _, serr := os.Stat(dir); serr != nil { // what was to be made in it is no matter
			err = unix.ENOENT
		}
	case errors.Is(err, unix.ESTALE), errors.Is(err, unix.EIO), errors.Is(err, unix.ENOTCONN), errors.Is(err, unix.EHOSTDOWN), errors.Is(err, unix.ETIMEDOUT):
		kind, remedy = core.Transient, "Does its file system answer?"
	}
	return &core.Error{Kind: kind, Op: "use the directory", Object: dir, Err: err, Remedy: remedy}
}
