package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
)

// storeRequest asks another machine for something in a store that is a directory
// there.
type storeRequest struct {
	Op string `json:"op"`
	// Dir is that of the run; of all runs for opRuns, opMark and opUnmark. What
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
	opList    = "list"
	opKeep    = "keep"
	opRestore = "restore"
	opCheck   = "check" // whether a checkpoint is undamaged
	opSame    = "same"  // whether the tree is what a checkpoint consists of
	opNote    = "note"
	opNoted   = "noted"
	opRemove  = "remove"
	opRuns    = "runs"
	opMark    = "mark"
	opUnmark  = "unmark"
)

// storeReply answers a storeRequest.
type storeReply struct {
	Manifest driver.Manifest     `json:"manifest"`
	Made     bool                `json:"made,omitempty"`
	Damaged  bool                `json:"damaged,omitempty"`
	List     []driver.Checkpoint `json:"list,omitempty"`
	Record   []byte              `json:"record,omitempty"`
	Runs     []string            `json:"runs,omitempty"`
}

// useStore does what a storeRequest asks for, on this machine.
func (a Agent) useStore(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var q storeRequest
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, err
	}
	dir, err := store.Absolute(q.Dir)
	if err != nil {
		return nil, err
	}
	var (
		r   storeReply
		own = a.Store(filepath.Dir(dir)).Run(filepath.Base(dir))
	)
	switch q.Op {
	case opList:
		r.List, err = own.List(ctx)
	case opKeep:
		r.Manifest, r.Made, err = own.Keep(ctx, q.Generation, q.Site, store.Tree(q.Path))
	case opRestore:
		err = own.Restore(ctx, q.Kept, store.Tree(q.Path))
	case opCheck:
		err = own.Check(ctx, q.Kept)
	case opSame:
		same := false
		same, err = store.Matches(q.Path, q.Kept.Manifest)
		r.Damaged = err == nil && !same
	case opNote:
		err = own.Note(ctx, q.Record)
	case opNoted:
		r.Record, err = own.Noted(ctx)
	case opRemove:
		err = own.Remove(ctx)
	case opRuns:
		r.Runs, err = a.Store(dir).Runs(ctx)
	case opMark:
		err = a.Store(dir).SharedDirectory().Mark(ctx, filepath.Base(q.Path))
	case opUnmark:
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
func answer(raw json.RawMessage, err error) (storeReply, error) {
	var r storeReply
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
