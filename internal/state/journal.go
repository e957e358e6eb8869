package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"modernc.org/sqlite" // registers itself with database/sql
	sqlite3 "modernc.org/sqlite/lib"
)

// journal is how the database survives a process that ends while it writes, and how
// those that read and write keep out of each other's way (ADR 29).
type journal struct {
	// mode is set by each connection. That of WAL stays in the file, and is set once.
	mode string
	// usual is how far what is written usually gets before the next thing is.
	usual string
	// busy is how long a process waits for others.
	busy time.Duration
}

// memory is for a directory of this machine: all who use the database share memory. With
// synchronous=NORMAL it survives the death of any process; only a power failure may take
// back the last moments, never corrupt the file.
//
// rollback is for a directory that other machines may use as well, with which no memory
// can be shared: only locks on the file show them each other. Readers and writers wait
// for each other there, and each write for the file server. The journal is emptied, not
// removed: a machine may think for a while that a file is not there which another one
// has just made. It needs FULL to never corrupt the file.
//
// alone keeps the records in memory, for this process only.
var (
	memory   = journal{usual: "NORMAL", busy: 20 * time.Second}
	rollback = journal{mode: "TRUNCATE", usual: "FULL", busy: time.Minute}
	alone    = journal{}
)

// changeTimeout is how long others may stand in the way of a change of the journal, or of
// tables.
const changeTimeout = 20 * time.Second

func (j journal) pragmas() string {
	text := fmt.Sprintf("_pragma=busy_timeout(%d)", j.busy.Milliseconds())
	if j.mode != "" {
		text += "&_pragma=journal_mode(" + j.mode + ")"
	}
	return text
}

// journalFor returns the journal that a database in dir needs. A file system that is not known to
// be of this machine alone may be used by others.
func journalFor(dir string) (journal, error) {
	f, err := fsutil.FileSystemOf(dir)
	if err != nil {
		return journal{}, fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	if f.Local() {
		return memory, nil
	}
	return rollback, nil
}

func isBusy(err error) bool {
	e, is := errors.AsType[*sqlite.Error](err)
	return is && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// usesMemory reports whether a process has the database open that shares it by memory.
func usesMemory(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "state.db-wal"))
	return err == nil
}

// inMemory is the error of a database that cannot be made one for several machines yet.
func inMemory(dir string) error {
	return &core.Error{
		Kind: core.Busy, Op: "open state", Object: dir,
		Err: errors.New("its file system may be shared by several machines, and bee processes have it open, of a version from before, in a way that works on one machine alone"),
		Remedy: "End those that carry runs in the background, on every machine that has the directory: `pkill -KILL -u \"$USER\" -f 'bee drive'`. The jobs continue; `bee supervise` continues the runs. " +
			"Or choose another directory with --state-dir or BEE_STATE.",
	}
}
