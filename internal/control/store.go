package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/store"
)

// checkpointsDir, below a run's directory, is where its checkpoints lie that
// have no other store. keptName is the note of what is in another.
const (
	checkpointsDir = "checkpoints"
	keptName       = "checkpoints.json"
)

func (c *Controller) checkpoints(run string) string {
	return filepath.Join(c.Store.RunDir(run), checkpointsDir)
}

// storeName is what a run is called in its store.
func (c *Controller) storeName(sub *Submission, run string) string {
	if sub.StoreName != "" {
		return sub.StoreName
	}
	return driver.RunName(c.Store.User(), run)
}

// local returns the checkpoints in a directory of this machine.
func (c *Controller) local(dir string) driver.Checkpoints {
	return c.LocalStore(dir, c.pause)
}

// store gives the store of the run's checkpoints: the directory of the run at
// home, or where `store:` says.
func (d *drive) store() (driver.Checkpoints, error) {
	if d.sub.Job.Store == "" {
		return d.c.local(d.c.checkpoints(d.run.ID)), nil
	}
	if d.where == nil {
		place, err := d.c.OpenStore(d.sub.Job.Store)
		if err != nil {
			return nil, err
		}
		d.where = place
	}
	return d.where.Run(d.c.storeName(&d.sub, d.run.ID)), nil
}

// closeStore lets go of the way to the store.
func (d *drive) closeStore() {
	if d.where != nil {
		d.where.Close()
		d.where = nil
	}
}

// kept lists the run's checkpoints in its store, oldest first, but those that are
// known to be broken.
func (d *drive) kept(ctx context.Context) ([]driver.Checkpoint, error) {
	list, err := d.all(ctx)
	return slices.DeleteFunc(list, func(k driver.Checkpoint) bool { return k.Broken }), err
}

// known gives the run's store once that is known to have the run: one that has lost
// its file system, or was taken for another, must not look like one that has no
// checkpoint.
func (d *drive) known(ctx context.Context) (driver.Checkpoints, error) {
	store, err := d.store()
	if err == nil && d.sub.Job.Store != "" {
		err = d.mine(ctx, store)
	}
	return store, err
}

// all lists the run's checkpoints in its store, oldest first.
func (d *drive) all(ctx context.Context) ([]driver.Checkpoint, error) {
	store, err := d.known(ctx)
	var list []driver.Checkpoint
	if err == nil {
		list, err = store.List(ctx)
	}
	if err == nil {
		list, err = d.compared(ctx, list)
	}
	if err != nil {
		return nil, d.storeFailed("list the checkpoints of run", err)
	}
	return list, nil
}

// enterStore makes the run known to its store, before anything is computed that
// could not be kept there.
func (d *drive) enterStore(ctx context.Context) error {
	if d.sub.Job.Store == "" {
		return nil
	}
	store, err := d.store()
	if err == nil {
		err = d.noteRun(ctx, store)
	}
	if err != nil {
		err = d.explained(err)
		return &core.Error{Kind: core.KindOf(err), Op: "use the store", Object: d.sub.Job.Store, Err: err, Remedy: core.Remedy(err)}
	}
	return nil
}

// TryStore tells of a run's store, before it is submitted, what it would fail by. What is
// written there for that is removed again.
func (c *Controller) TryStore(ctx context.Context, sub Submission) error {
	if sub.Job.Store == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout)
	defer cancel()
	d := &drive{c: c, sub: sub, run: state.Run{ID: state.NewID(), Name: sub.Job.Name, State: state.Queued, Created: time.Now()}}
	defer d.closeStore()
	err := d.enterStore(ctx)
	if store, serr := d.store(); serr == nil { // else that is what the first error tells
		if rerr := store.Remove(ctx); err == nil {
			err = rerr
		}
	}
	return err
}

func (d *drive) explained(err error) error {
	if core.Remedy(err) != "" {
		return err
	}
	return store.Explain(d.storeDir(), err)
}

func (d *drive) storeDir() string {
	if d.sub.Job.Store == "" {
		return d.c.checkpoints(d.run.ID)
	}
	return d.sub.Job.Store
}

// storeFailed says what failed at a store, and that nothing is lost by it.
func (d *drive) storeFailed(op string, err error) error {
	if ctxEnded(err) {
		return err
	}
	err = d.explained(err)
	remedy := core.Remedy(err)
	if remedy != "" {
		remedy += " "
	}
	return &core.Error{
		Kind: core.KindOf(err), Op: op, Object: d.run.ID + " " + d.storeText(), Err: err,
		Remedy: remedy + "Nothing is lost: what is not there yet stays on its site. `bee supervise` tries again.",
	}
}

func ctxEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// record is what a store keeps of a run beside its checkpoints, so that another
// machine can go on with it. It holds no secrets, but where they come from.
type record struct {
	Version  int             `json:"version"`
	Holder   string          `json:"holder"` // the installation that carries the run
	Run      state.Run       `json:"run"`
	Attempts []state.Attempt `json:"attempts"`
}

const recordVersion = 1

// noteRun writes the run's record into its store.
func (d *drive) noteRun(ctx context.Context, store driver.Checkpoints) error {
	attempts, err := d.c.Store.Attempts(ctx, d.run.ID)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(record{recordVersion, d.c.Store.User(), d.run, attempts})
	if err != nil {
		return err
	}
	return store.Note(ctx, raw)
}

// mine makes sure that the store knows the run, and that no other installation
// has taken it over from there: only one may write to it.
func (d *drive) mine(ctx context.Context, store driver.Checkpoints) error {
	raw, err := store.Noted(ctx)
	if err != nil {
		return err
	}
	if raw == nil {
		return &core.Error{
			Kind: core.Transient, Err: errors.New("it knows nothing of this run"),
			Remedy: "Is it the right one, and is its file system mounted?",
		}
	}
	if h := holder(raw); h == "" || h == d.c.Store.User() { // a damaged record is written anew
		return nil
	}
	return &core.Error{
		Kind: core.Permanent, Op: "go on with run", Object: d.run.ID, Err: errTaken,
		Remedy: "Follow it there; here, `bee stop " + d.run.ID + "` gives it up.",
	}
}

// holder gives the installation that carries a run, by its record in a store; "": it
// tells none.
func holder(raw []byte) string {
	var r struct { // of all attempts nothing is made
		Holder string `json:"holder"`
	}
	if json.Unmarshal(raw, &r) != nil {
		return ""
	}
	return r.Holder
}

var errTaken = errors.New("another installation of bee has gone on with it from the store") //nolint:gochecknoglobals // a constant

// Checkpoint is one that a run has, for people.
type Checkpoint struct {
	Attempt int       `json:"attempt"`
	Site    string    `json:"site"`
	Taken   time.Time `json:"taken"`
	// Seconds is how long it took to bring it there.
	Seconds float64 `json:"seconds"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	// Path is where it lies: a directory, or as `store:` says.
	Path string `json:"path"`
}

func forPeople(list []driver.Checkpoint) []Checkpoint {
	var out []Checkpoint
	for _, k := range list {
		m := k.Manifest
		out = append(out, Checkpoint{m.Attempt, m.Site, m.Taken, m.Took.Seconds(), len(m.Files), m.Bytes, k.Place})
	}
	return out
}

// remember notes at home what is in a store, so that telling it needs no way
// there.
func (d *drive) remember(list []driver.Checkpoint) error {
	raw, err := json.Marshal(forPeople(list))
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(d.c.Store.RunDir(d.run.ID), keptName), raw, 0o600)
}

// Checkpoints lists those that a run has, oldest first: what its store had when
// it was asked last.
func (c *Controller) Checkpoints(ctx context.Context, run string) ([]Checkpoint, error) {
	var out []Checkpoint
	raw, err := os.ReadFile(filepath.Join(c.Store.RunDir(run), keptName))
	if err == nil {
		return out, json.Unmarshal(raw, &out)
	}
	list, err := c.local(c.checkpoints(run)).List(ctx)
	return forPeople(list), err
}

// keepText says where a checkpoint has been brought.
func (d *drive) keepText(m driver.Manifest) string {
	return fmt.Sprintf("checkpoint of attempt %d is %s, files: %d", m.Attempt, d.storeText(), len(m.Files))
}

// storeText is the store for people.
func (d *drive) storeText() string {
	if d.sub.Job.Store == "" {
		return "at home"
	}
	return "in the store " + d.sub.Job.Store
}
