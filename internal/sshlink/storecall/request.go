package storecall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/store"
)

// Request is about a store that is a directory on another machine.
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

// Operations of a request.
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

// Reply answers a request.
type Reply struct {
	Manifest driver.Manifest     `json:"manifest"`
	Made     bool                `json:"made,omitempty"`
	Damaged  bool                `json:"damaged,omitempty"`
	List     []driver.Checkpoint `json:"list,omitempty"`
	Record   []byte              `json:"record,omitempty"`
	Runs     []string            `json:"runs,omitempty"`
}

// useStore answers a request on this machine.
func (a Agent) useStore(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	q, err := rpc.Decode[Request](raw)
	if err != nil {
		return nil, err
	}
	dir, err := store.Absolute(q.Dir)
	if err != nil {
		return nil, err
	}
	var (
		r   Reply
		own = a.Store(filepath.Dir(dir)).Run(filepath.Base(dir))
	)
	switch q.Op {
	case OpList:
		r.List, err = own.List(ctx)
	case OpKeep:
		r.Manifest, r.Made, err = own.Keep(ctx, q.Generation, q.Site, store.Tree(q.Path))
	case OpRestore:
		err = own.Restore(ctx, q.Kept, store.Tree(q.Path))
	case OpCheck:
		err = own.Check(ctx, q.Kept)
	case OpSame:
		same := false
		same, err = store.Matches(ctx, q.Path, q.Kept.Manifest)
		r.Damaged = err == nil && !same
	case OpNote:
		err = own.Note(ctx, q.Record)
	case OpNoted:
		r.Record, err = own.Noted(ctx)
	case OpRemove:
		err = own.Remove(ctx)
	case OpRuns:
		r.Runs, err = a.Store(dir).Runs(ctx)
	case OpMark:
		err = a.Store(dir).SharedDirectory().Mark(ctx, filepath.Base(q.Path))
	case OpUnmark:
		err = a.Store(dir).SharedDirectory().Unmark(ctx, filepath.Base(q.Path))
	default:
		err = fmt.Errorf("a store is asked for %q, which this bee does not know", q.Op)
	}
	if errors.Is(err, driver.ErrDamaged) {
		r.Damaged, err = true, nil
	}
	if err != nil {
		return nil, store.Explain(dir, err)
	}
	return json.Marshal(r)
}

// answer reads the reply of useStore.
func answer(raw json.RawMessage, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	r, err := rpc.Decode[Reply](raw)
	if err != nil {
		return r, err
	}
	if r.Damaged {
		return r, driver.ErrDamaged
	}
	return r, nil
}
