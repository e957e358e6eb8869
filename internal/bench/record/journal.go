package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Names of the files in a directory of results.
const (
	PlanFile = "plan.json"
	RowsFile = "results.jsonl"
	LogsDir  = "logs"
	lockFile = "lock"
)

// Bounds of what is read.
const (
	maxPlan = 16 << 20
	maxRows = 1 << 30
)

// Journal appends rows to a directory of results, which it locks.
type Journal struct {
	Dir  string
	Plan Plan
	// Rows are all rows, the appended ones too.
	Rows []Row

	file *os.File
	lock *fsutil.Lock
}

// Create makes a directory of results. It is an error of kind Invalid if it has a plan.
func Create(dir string, plan Plan) (*Journal, error) {
	plan.Schema = Schema
	if err := fsutil.MkdirAll(filepath.Join(dir, LogsDir), 0o755); err != nil {
		return nil, err
	}
	there, err := fsutil.Exists(filepath.Join(dir, PlanFile))
	if err != nil {
		return nil, err
	}
	if there {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "write results to", Object: dir, Err: errors.New("it has results of a study"),
			Remedy: "Name another directory by -o, or continue that one: `bee bench resume " + dir + "`.",
		}
	}
	if err := writePlan(dir, plan); err != nil {
		return nil, err
	}
	return open(dir, true)
}

func writePlan(dir string, plan Plan) error {
	text, err := json.MarshalIndent(plan, "", "  ")
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(dir, PlanFile), append(text, '\n'), 0o644)
}

// MarkBusy notes in the plan that other processes used the processors when measuring began.
func (j *Journal) MarkBusy() error {
	j.Plan.Busy = true
	return writePlan(j.Dir, j.Plan)
}

// Open opens a directory of results to append rows. It is an error of kind Busy if another
// process does so.
func Open(dir string) (*Journal, error) { return open(dir, true) }

// Read reads a directory of results.
func Read(dir string) (Plan, []Row, error) {
	j, err := open(dir, false)
	if err != nil {
		return Plan{}, nil, err
	}
	return j.Plan, j.Rows, nil
}

func open(dir string, write bool) (*Journal, error) {
	j := &Journal{Dir: dir}
	text, err := fsutil.ReadFile(dir, PlanFile, maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &core.Error{Kind: core.NotFound, Op: "find results in", Object: dir, Err: errors.New("there is no " + PlanFile), Remedy: "Name the directory that `bee bench run` printed."}
	}
	if err == nil {
		err = json.Unmarshal(text, &j.Plan)
	}
	if err == nil && j.Plan.Schema > Schema {
		err = fmt.Errorf("version %d of its format is newer than this bee knows (%d)", j.Plan.Schema, Schema)
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "read " + PlanFile + " in", Object: dir, Err: err, Remedy: "Use the bee that wrote it, or measure again."}
	}
	if write {
		if j.lock, err = fsutil.TryLock(filepath.Join(dir, lockFile)); err != nil {
			return nil, &core.Error{Kind: core.Busy, Op: "append results to", Object: dir, Err: err, Remedy: "Another bee bench measures into it: wait for its end."}
		}
	}
	if err := j.read(write); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// read reads the rows. A torn last line, which a kill left, is cut off.
func (j *Journal) read(write bool) error {
	text, err := fsutil.ReadFile(j.Dir, RowsFile, maxRows)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if j.Rows, err = rowsIn(text[:whole]); err != nil {
		return &core.Error{Kind: core.Invalid, Op: "read", Object: filepath.Join(j.Dir, RowsFile), Err: err, Remedy: "Restore the file, or measure again into another directory."}
	}
	if !write {
		return nil
	}
	if j.file, err = fsutil.Append(filepath.Join(j.Dir, RowsFile), 0o644); err != nil {
		return err
	}
	if whole < len(text) {
		if err := j.file.Truncate(int64(whole)); err != nil {
			return err
		}
	}
	return fsutil.SyncDir(j.Dir)
}

// share is how many lines one goroutine decodes at a time.
const share = 1000

// rowsIn decodes whole lines, on all processors.
func rowsIn(text []byte) ([]Row, error) {
	lines := bytes.Split(text, []byte("\n"))
	rows, errs := make([]Row, len(lines)), make([]error, len(lines)/share+1)
	var wg sync.WaitGroup
	gate := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			d := decoder{}
			for n := i * share; n < min(len(lines), (i+1)*share); n++ {
				if len(lines[n]) == 0 {
					continue
				}
				if err := d.decode(lines[n], &rows[n]); err != nil {
					errs[i] = fmt.Errorf("line %d: %w", n+1, err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs { // the first of all
		if err != nil {
			return nil, err
		}
	}
	whole := rows[:0]
	for n := range rows {
		if len(lines[n]) > 0 {
			whole = append(whole, rows[n])
		}
	}
	return whole, nil
}

// A decoder decodes rows. Programs seldom change from one row to the next, so that equal ones
// are decoded once. Rows share them.
type decoder map[string]map[string]string

func (d decoder) decode(line []byte, row *Row) error {
	x := struct {
		*Row
		Programs json.RawMessage `json:"programs"`
	}{Row: row}
	if err := json.Unmarshal(line, &x); err != nil || len(x.Programs) == 0 {
		return err
	}
	programs, known := d[string(x.Programs)]
	if !known {
		if err := json.Unmarshal(x.Programs, &programs); err != nil {
			return err
		}
		d[string(x.Programs)] = programs
	}
	row.Programs = programs
	return nil
}

// Append adds a row, which is on the disk when it returns.
func (j *Journal) Append(r Row) error {
	r.Schema = Schema
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("append to %s: %w", RowsFile, err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("append to %s: %w", RowsFile, err)
	}
	j.Rows = append(j.Rows, r)
	return nil
}

// Close closes the files and unlocks the directory.
func (j *Journal) Close() error {
	var err error
	if j.file != nil {
		err = j.file.Close()
	}
	if j.lock != nil {
		err = errors.Join(err, j.lock.Unlock())
	}
	return err
}
