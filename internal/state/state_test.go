package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := openWith(t.Context(), dir, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, r Run) Run {
	t.Helper()
	if r.ID == "" {
		r.ID = NewID()
	}
	if r.Created.IsZero() {
		r.Created = time.Now()
	}
	r.Submission = json.RawMessage(`{}`)
	if err := s.PutRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunSurvivesReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	code := 3
	r := put(t, s, Run{Name: "lysozyme", State: Failed, ExitCode: &code, Kind: "permanent", Message: "m", Remedy: "r", Ended: time.Now(), SetupDone: true})
	handle := core.Handle{Driver: "local", Version: 1, Owner: core.Owner{User: s.User(), Run: r.ID, Attempt: 1}, Data: json.RawMessage(`{"a":1}`)}
	a := Attempt{Run: r.ID, N: 1, Site: "lab", Provider: "local", Lease: &handle, Started: time.Now()}
	a.State = Starting
	if err := s.PutAttempt(t.Context(), a, true); err != nil {
		t.Fatal(err)
	}
	user := s.User()
	s.Close()

	s = open(t, dir)
	if s.User() != user {
		t.Errorf("user id changed from %s to %s", user, s.User())
	}
	got, err := s.Run(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != Failed || *got.ExitCode != 3 || got.Message != "m" || !got.SetupDone || !got.Ended.Equal(r.Ended) {
		t.Errorf("got %+v", got)
	}
	attempts, err := s.Attempts(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(attempts) != 1 || !attempts[0].Launched() || attempts[0].Released() || string(attempts[0].Lease.Data) != `{"a":1}` {
		t.Errorf("got %+v", attempts)
	}
}

// The database's name goes to SQLite as a URI.
func TestDirectoriesOfAnyNameHoldTheirState(t *testing.T) {
	for _, name := range []string{"a#b", "a?mode=ro", "a%41", "a b", "ü&x=1"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name)
			put(t, open(t, dir), Run{Name: "job"})
			if _, err := os.Stat(filepath.Join(dir, "state.db")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPutRunKeepsAStopThatWasAsked(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, Run{Name: "x", State: Queued})
	if err := s.Requests().AskStop(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	r.State = Running // a controller that has not looked yet
	put(t, s, r)
	if got, _ := s.Run(t.Context(), r.ID); !got.StopAsked || got.State != Running {
		t.Errorf("got %+v", got)
	}
}

func TestManyProcessesOpenOneStateAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	users := make([]string, 8)
	for i := range users {
		wg.Go(func() {
			s, err := openWith(context.Background(), dir, mode)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			users[i] = s.User()
			for range 20 {
				if err := s.PutRun(context.Background(), Run{ID: NewID(), Created: time.Now(), State: Queued, Submission: []byte("{}")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, u := range users {
		if u != users[0] || u == "" {
			t.Fatalf("user ids differ: %q", users)
		}
	}
	runs, err := open(t, dir).Runs(t.Context(), Filter{})
	if err != nil || len(runs) != 160 {
		t.Errorf("%d runs, %v; want 160", len(runs), err)
	}
}

// TestWaitingForAWriterHoldsNobodyElse: who waits for another process that writes,
// or for those that do, keeps nobody from giving up.
func TestWaitingForAWriterHoldsNobodyElse(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	r := put(t, s, Run{Name: "x", State: Queued})
	tx, err := other.db.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	asked := make(chan error, 1)
	go func() { asked <- s.Requests().AskStop(context.Background(), r.ID) }()
	testkit.Eventually(t, 10*time.Second, func() error {
		if s.db.db.Stats().InUse == 0 {
			return errors.New("the write has not begun")
		}
		return nil
	})
	looked := make(chan error, 1)
	go func() { _, err := s.Run(context.Background(), r.ID); looked <- err }()
	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Attempts(impatient, r.ID); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it gave up", err)
	}
	select {
	case err := <-asked:
		t.Fatalf("the write ended first: %v", err)
	default:
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(<-asked, <-looked); err != nil {
		t.Error(err)
	}
}

// TestNewerState is refused, and kept, unless the newer bee has recorded that this one may
// use it: the bee that launched a run follows it to its end.
func TestNewerState(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		meta string
		fits bool
	}{
		{"UPDATE meta SET value='99' WHERE key='readable_from'", false},
		{"DELETE FROM meta WHERE key='readable_from'", false},
		{fmt.Sprintf("INSERT OR REPLACE INTO meta VALUES ('readable_from', %d)", schemaVersion), true},
	} {
		s := open(t, dir)
		err := s.Exec(t.Context(), c.meta)
		if err == nil {
			err = s.Exec(t.Context(), "PRAGMA user_version=99")
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		s, err = openWith(t.Context(), dir, mode)
		if fits := err == nil; fits != c.fits {
			t.Errorf("after %s: got %v", c.meta, err)
		}
		if remedy := core.Remedy(err); !c.fits && (!core.IsKind(err, core.Unsupported) || strings.Contains(remedy, "writable") || !strings.Contains(remedy, "newer")) {
			t.Errorf("after %s, %v with the remedy %q", c.meta, err, remedy)
		}
		if err == nil {
			s.Close()
		}
		db, err := newConn("file:" + filepath.Join(dir, databaseName))
		if err == nil {
			err = errors.Join(db.exec(t.Context(), "PRAGMA user_version="+fmt.Sprint(schemaVersion)), db.close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestANewerBeeMigratesMeanwhile: an older bee that was about to do so leaves the version as
// it is.
func TestANewerBeeMigratesMeanwhile(t *testing.T) {
	s := open(t, t.TempDir())
	for _, c := range []struct {
		from int
		fits bool
	}{{99, false}, {schemaVersion, true}} {
		err := errors.Join(
			s.Exec(t.Context(), "UPDATE meta SET value=? WHERE key='readable_from'", c.from),
			s.Exec(t.Context(), "PRAGMA user_version=99"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.db.do(t.Context(), s.migrate); (err == nil) != c.fits {
			t.Errorf("readable from %d: got %v", c.from, err)
		}
		var version, from int
		err = s.db.do(t.Context(), func(ctx context.Context, db *sql.DB) error {
			return errors.Join(
				db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version),
				db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key='readable_from'").Scan(&from))
		})
		if err != nil || version != 99 || from != c.from {
			t.Errorf("version %d, readable from %d, %v; expected 99 and %d", version, from, err, c.from)
		}
	}
}

func TestLockEndsWithItsHolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if s.Locks().Controlled("run1") {
		t.Error("controlled before anyone locked it")
	}
	// Another process holds the lock: this test, executed again.
	holder := helper("TestHelperHoldsLock", "BEE_TEST_LOCK="+dir)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if raw, _ := os.ReadFile(filepath.Join(s.RunDir("run1"), "lock")); string(raw) == "" || !s.Locks().Controlled("run1") {
			return errors.New("nobody holds it, or its file does not name the holder")
		}
		return nil
	})
	if _, err := s.Locks().Acquire("run1"); !core.IsKind(err, core.Busy) {
		t.Errorf("second lock: got %v, want busy", err)
	}
	holder.Process.Kill()
	holder.Wait() //nolint:errcheck // it was killed
	l, err := s.Locks().Acquire("run1")
	if err != nil {
		t.Fatalf("after the holder's death: %v", err)
	}
	l.Unlock()
}

// TestWhoLooksKeepsNobodyFromControlling, be it that it gets no processor as it looks.
func TestWhoLooksKeepsNobodyFromControlling(t *testing.T) {
	s := open(t, t.TempDir())
	l, err := s.Locks().Acquire("run1")
	if err != nil {
		t.Fatal(err)
	}
	l.Unlock()
	looks, err := os.Open(filepath.Join(s.RunDir("run1"), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := fsutil.TryFlock(int(looks.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { looks.Close() })
	if l, err = s.Locks().Acquire("run1"); err != nil {
		t.Fatal(err)
	}
	l.Unlock()
}

// held is referred to until the helper dies: a lock that nothing refers to is
// freed with its file by the garbage collector.
var held *Lock

func TestHelperHoldsLock(t *testing.T) {
	dir := os.Getenv("BEE_TEST_LOCK")
	if dir == "" {
		t.Skip("only a helper of TestLockEndsWithItsHolder")
	}
	var err error
	if held, err = open(t, dir).Locks().Acquire("run1"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Hour) // a select without cases is a deadlock, which ends the process
}

// TestManyOpenANewStore: the first processes of a new installation come at
// once.
func TestManyOpenANewStore(t *testing.T) {
	for range 20 {
		dir := t.TempDir()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := openWith(t.Context(), dir, mode)
				if err != nil {
					t.Error(err)
					return
				}
				s.Close()
			})
		}
		all.Wait()
	}
}

func TestAClockPutBackMakesNoNegativeCost(t *testing.T) {
	granted := time.Now()
	a := Attempt{Ended: granted.Add(-time.Hour), Record: Record{Granted: granted, Hosts: []core.Host{{}, {}}}}
	if got := a.HostTime(granted); got != 0 {
		t.Errorf("two hosts were held for %v", got)
	}
	a.Ended = time.Time{}
	if got := a.HostTime(granted.Add(time.Hour)); got != 2*time.Hour {
		t.Errorf("two hosts were held for %v", got)
	}
}
