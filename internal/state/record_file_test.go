package state

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// recorded makes a run with its directory, as a submission does.
func recorded(t *testing.T, s *Store) Run {
	t.Helper()
	run := Run{ID: NewID(), Name: "job", State: Suspended, Created: time.Now(), Submission: []byte(`{"version":1}`)}
	lock, err := s.Locks().Acquire(run.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := s.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := s.PutAttempt(t.Context(), Attempt{Run: run.ID, N: 1, Site: "lab", Provider: "slurm", Started: time.Now(), Lease: &core.Handle{Driver: "slurm", Version: 1, Owner: core.Owner{User: s.User(), Run: run.ID, Attempt: 1}}}, true); err != nil {
		t.Fatal(err)
	}
	return run
}

func reopen(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestNewDatabaseAdoptsRunsAndInstallation(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	run, user := recorded(t, s), s.User()
	bare := NewID() // of an earlier version, or damaged
	if err := os.MkdirAll(filepath.Join(s.RunDir(bare), "checkpoints"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, f := range []string{databaseName, databaseName + "-wal", databaseName + "-shm"} {
		os.Remove(filepath.Join(dir, f))
	}
	s = reopen(t, dir)
	if s.User() != user {
		t.Errorf("the installation was %s, and is %s", user, s.User())
	}
	if a := s.Adopted(); !slices.Equal(a.Runs, []string{run.ID}) || !slices.Equal(a.Left, []string{bare}) {
		t.Errorf("adopted %+v", a)
	}
	got, err := s.Run(t.Context(), run.ID)
	if err != nil || got.State != Suspended || string(got.Submission) != string(run.Submission) {
		t.Errorf("the run is %+v, %v", got, err)
	}
	attempts, err := s.Attempts(t.Context(), run.ID)
	if err != nil || len(attempts) != 1 || attempts[0].Lease == nil {
		t.Errorf("its attempts are %+v, %v", attempts, err)
	}
	again := reopen(t, dir)
	if a := again.Adopted(); len(a.Runs)+len(a.Left) > 0 {
		t.Errorf("opened again, it adopts %+v", a)
	}
}

func TestRecordOfAnotherRunIsNotAdopted(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	run := recorded(t, s)
	s.Close()
	other := NewID()
	if err := os.Rename(s.RunDir(run.ID), filepath.Join(dir, "runs", other)); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, databaseName))
	if a := reopen(t, dir).Adopted(); len(a.Runs) != 0 || !slices.Equal(a.Left, []string{other}) {
		t.Errorf("adopted %+v", a)
	}
}

func TestUnrecordedDirectories(t *testing.T) {
	s := reopen(t, t.TempDir())
	old := func(id string, files ...string) string {
		for _, f := range append(files, lockName) {
			path := filepath.Join(s.RunDir(id), f)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		long := time.Now().Add(-time.Hour)
		if err := os.Chtimes(s.RunDir(id), long, long); err != nil {
			t.Fatal(err)
		}
		return id
	}
	begun, unknown, removed := old(NewID()), old(NewID(), "checkpoints/1/manifest.json"), old(NewID(), "volume/x")
	if err := s.Forget(t.Context(), removed, ""); err != nil {
		t.Fatal(err)
	}
	list, err := s.Unrecorded(t.Context())
	spare := map[string]bool{}
	for _, u := range list {
		spare[u.ID] = u.Spare
	}
	if err != nil || len(list) != 3 || !spare[begun] || spare[unknown] || !spare[removed] {
		t.Errorf("unrecorded: %+v, %v", list, err)
	}
}

func TestRunDirStaysBelowTheStateDirectory(t *testing.T) {
	s := reopen(t, t.TempDir())
	runs := filepath.Join(s.Dir(), "runs")
	for _, id := range []string{"../../Documents", "..", ".", "", "a/b", "/etc", "x\x00y", string(make([]byte, 300)), ".hidden"} {
		if dir := s.RunDir(id); filepath.Dir(dir) != runs || dir == runs {
			t.Errorf("run %q has directory %s", id, dir)
		}
	}
}

func TestRecordsAreReadByTheirUserAlone(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(s *Store) {
		t.Helper()
		run := recorded(t, s)
		for _, name := range []string{databaseName, databaseName + "-wal", databaseName + "-shm", "runs", installationName, filepath.Join("runs", run.ID), filepath.Join("runs", run.ID, besideName)} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}
	s := reopen(t, dir)
	check(s)
	for _, name := range []string{databaseName, databaseName + "-wal", databaseName + "-shm"} { // as an earlier version left them
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "runs"), 0o755); err != nil {
		t.Fatal(err)
	}
	check(reopen(t, dir))
}

// TestInstallation: its id is read without opening the state, and nothing is made.
func TestInstallation(t *testing.T) {
	dir := t.TempDir()
	if id := Installation(dir); id != "" {
		t.Errorf("of no state it is %q", id)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	s, err := Open(t.Context(), filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if id := Installation(s.Dir()); id == "" || id != s.User() {
		t.Errorf("it is %q, expected %q", id, s.User())
	}
}
