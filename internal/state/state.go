// Package state keeps what BEE must not forget: runs, their attempts and
// leases, in one SQLite file, and the locks that give each run one controller
// at a time. It knows no driver: leases are opaque handles to it.
//
// Order of writing, everywhere: the intent (an attempt without a lease), then
// the thing itself, then its handle. A process that dies between two of them
// leaves an attempt that the next controller can finish or sweep.
package state

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Store is the state directory: state.db, and runs/<id>/ for what belongs to
// one run (its lock, its controller's log).
type Store struct {
	dir string
	db  *conn
	// durable is a connection to the same file for what must survive a power failure:
	// synchronous is a setting of a connection.
	durable *conn
	journal journal
	user    string
	fresh   bool // the database was made by this process
	adopted Adopted
}

// schemaVersion is PRAGMA user_version. Each step of migrations brings an
// older file one version further.
const schemaVersion = 18

// readableFrom is the oldest version whose bee may use a file of schemaVersion: it follows
// runs that it has launched to their end, after a newer one has brought the file further. A
// step that changes what an older bee reads or writes raises it, and waits until no attempt
// of such a bee is open.
const readableFrom = 11

// withoutStates is the last version in which attempts had flags in place of a state.
const withoutStates = 6

func migrations() []string {
	return []string{`
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, state TEXT NOT NULL,
  created INTEGER NOT NULL, ended INTEGER, exit_code INTEGER,
  kind TEXT NOT NULL DEFAULT '', message TEXT NOT NULL DEFAULT '', remedy TEXT NOT NULL DEFAULT '',
  image TEXT NOT NULL DEFAULT '', setup_done INTEGER NOT NULL DEFAULT 0,
  stop_asked INTEGER NOT NULL DEFAULT 0, submission BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX runs_by_state ON runs(state);
CREATE INDEX runs_by_created ON runs(created);
CREATE TABLE attempts (
  run TEXT NOT NULL, n INTEGER NOT NULL, site TEXT NOT NULL, provider TEXT NOT NULL,
  lease BLOB, released INTEGER NOT NULL DEFAULT 0, started INTEGER NOT NULL, ended INTEGER,
  record BLOB NOT NULL, PRIMARY KEY (run, n)) WITHOUT ROWID;
CREATE INDEX attempts_unreleased ON attempts(released) WHERE released = 0;
`, `
CREATE TABLE history (run TEXT NOT NULL, time INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX history_by_run ON history(run);
`, `
ALTER TABLE runs ADD COLUMN site_lost BLOB;
`, `
CREATE INDEX runs_to_stop ON runs(state) WHERE stop_asked=1;
`, `
CREATE TABLE forgotten (run TEXT PRIMARY KEY, time INTEGER NOT NULL, store TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
`, `
CREATE TABLE events (
  run TEXT NOT NULL, seq INTEGER NOT NULL, time INTEGER NOT NULL, attempt INTEGER NOT NULL DEFAULT 0,
  kind TEXT NOT NULL, fields TEXT NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID;
INSERT INTO events (run, seq, time, kind, fields)
  SELECT run, ROW_NUMBER() OVER (PARTITION BY run ORDER BY rowid), time, 'note', json_object('text', text) FROM history;
DROP TABLE history;
ALTER TABLE runs ADD COLUMN suspended TEXT NOT NULL DEFAULT '';
` + setSuspended, addStates, addRequests, addWritten, requestStops, addPartial, addCases, addArrayIndexes, addTurns, addPacks, addCaseAttempts, addCollected, addNames}
}

// Open opens, and on first use makes, the state in dir.
func Open(ctx context.Context, dir string) (*Store, error) {
	err := fsutil.OwnDir(dir)
	var j journal
	if err == nil {
		j, err = journalFor(dir)
	}
	if err == nil {
		err = keepPrivate(dir)
	}
	if err != nil {
		return nil, unopened(dir, err)
	}
	s, err := openWith(ctx, dir, j)
	if err == nil && s.fresh {
		err = s.adopt(ctx)
	}
	if err != nil {
		if s != nil {
			s.Close()
		}
		return nil, err
	}
	return s, nil
}

// OpenAlone is Open for a test that plays many runs: their records are kept in memory, for
// this process alone.
func OpenAlone(ctx context.Context, dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unopened(dir, err)
	}
	return openWith(ctx, dir, alone)
}

func unopened(dir string, err error) error {
	return &core.Error{
		Kind: core.Permanent, Op: "open state", Object: dir, Err: err,
		Remedy: "Check that the directory is writable, for nobody else, and its disk has space, or choose another with --state-dir or BEE_STATE.",
	}
}

// A newerError is of a file that a newer bee wrote.
type newerError struct{ version int }

func (e newerError) Error() string {
	return fmt.Sprintf("%s has version %d, written by a newer bee; this one knows %d", databaseName, e.version, schemaVersion)
}

// newer is about a state directory that a newer bee has written.
func newer(dir string, err error) error {
	return &core.Error{
		Kind: core.Unsupported, Op: "open state", Object: dir, Err: err,
		Remedy: "Use the newer bee, or choose another directory with --state-dir or BEE_STATE.",
	}
}

func openWith(ctx context.Context, dir string, j journal) (*Store, error) {
	// The name is a URI: a directory's #, ? or % must not end or change it.
	name := url.URL{Path: filepath.Join(dir, databaseName)}
	dsn := "file:" + name.EscapedPath() + "?" + j.pragmas() + "&_txlock=immediate&_pragma=temp_store(MEMORY)&_pragma=synchronous"
	usual := dsn + "(" + j.usual + ")"
	if j == alone {
		usual = ":memory:"
	}
	db, err := newConn(usual)
	if err != nil {
		return nil, unopened(dir, err)
	}
	// What must outlive a power failure goes through a connection of its own.
	durable := db
	if j != alone {
		if durable, err = newConn(dsn + "(FULL)"); err != nil {
			return nil, unopened(dir, err)
		}
	}
	s := &Store{dir: dir, db: db, durable: durable, journal: j}
	// Changing the journal, which happens once, does not wait for other processes by
	// itself, nor do they for it.
	waited := false
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := s.db.do(ctx, s.prepare)
		if err == nil {
			return s, nil
		}
		if waited = waited || isBusy(err); isBusy(err) && ctx.Err() == nil && time.Since(begun) < changeTimeout {
			continue
		}
		s.Close()
		if waited && j == rollback && usesMemory(dir) {
			return nil, inMemory(dir)
		}
		if _, is := errors.AsType[newerError](err); is {
			return nil, newer(dir, err)
		}
		return nil, unopened(dir, err)
	}
}

func (s *Store) prepare(ctx context.Context, db *sql.DB) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version > schemaVersion && !readableByThis(ctx, db) {
		return newerError{version}
	}
	if version < schemaVersion {
		if err := s.migrate(ctx, db); err != nil {
			return err
		}
	}
	return db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key='user'").Scan(&s.user)
}

// readableByThis reports whether a newer bee has recorded that this one may use its file.
func readableByThis(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) bool {
	var from int
	err := db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key='readable_from'").Scan(&from)
	return err == nil && from <= schemaVersion
}

func (s *Store) migrate(ctx context.Context, db *sql.DB) error {
	if s.journal == memory {
		if _, err := db.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
			return err
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var version int // another process may have migrated meanwhile
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch {
	case version > schemaVersion && !readableByThis(ctx, tx):
		return newerError{version}
	case version >= schemaVersion: // what it wrote stays, a newer version above all
		return nil
	}
	fresh := version == 0
	for ; version < schemaVersion; version++ {
		if _, err := tx.ExecContext(ctx, migrations()[version]); err != nil {
			return err
		}
		if version == withoutStates {
			if err := deriveStates(ctx, tx); err != nil {
				return err
			}
		}
	}
	user := NewID()
	if s.journal != alone {
		if user, err = installation(s.dir, user); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO meta VALUES ('user', ?)", user); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO meta VALUES ('readable_from', ?)", readableFrom); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version="+strconv.Itoa(schemaVersion)); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	s.fresh = fresh && s.journal != alone
	return nil
}

// Close closes the store.
func (s *Store) Close() error { return errors.Join(s.db.close(), s.durable.close()) }

// Exec runs an SQL statement, for tests with records that no bee writes.
func (s *Store) Exec(ctx context.Context, statement string, args ...any) error {
	return s.db.exec(ctx, statement, args...)
}

// Dir is the state directory.
func (s *Store) Dir() string { return s.dir }

// Shared reports whether other machines may use this directory as well.
func (s *Store) Shared() bool { return s.journal == rollback }

// User is this installation's id: the User of every core.Owner it makes.
func (s *Store) User() string { return s.user }

// idForm is what NewID gives.
var idForm = regexp.MustCompile(`^[a-z][a-z2-7]{7}$`)

// IsID reports whether text has the form of an id that NewID makes.
func IsID(text string) bool { return idForm.MatchString(text) }

// NewID is a fresh id of 8 lower-case letters and digits that starts with a
// letter, so that it can stand in host and container names.
func NewID() string {
	var raw [8]byte
	rand.Read(raw[:])
	id := strings.ToLower(base32.StdEncoding.EncodeToString(raw[:]))[:8]
	return string('a'+raw[7]%26) + id[1:]
}

// notFound makes sql.ErrNoRows the NotFound of an object.
func notFound(err error, op, object, remedy string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return &core.Error{Kind: core.NotFound, Op: op, Object: object, Err: errors.New("no such run"), Remedy: remedy}
	}
	return err
}
