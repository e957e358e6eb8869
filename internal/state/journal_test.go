package state

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// mode is the journal that the tests of this package use: first the one, then the other.
var mode = memory

// helperMode, in the environment of a test that is executed as a helper, is its mode.
const helperMode = "BEE_TEST_JOURNAL"

func TestMain(m *testing.M) {
	if name, is := os.LookupEnv(helperMode); is {
		if name == rollback.mode {
			mode = rollback
		}
		os.Exit(m.Run())
	}
	code := m.Run()
	mode = rollback
	os.Exit(max(code, m.Run()))
}

// helper is another process: one of this package's tests, with a variable.
func helper(test, variable string) *exec.Cmd {
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	c.Env = append(os.Environ(), variable, helperMode+"="+mode.mode)
	return c
}

// TestProcessesShareAState, which is whole though one of them is killed while it writes.
func TestProcessesShareAState(t *testing.T) {
	const each, writers = 30, 3
	dir := t.TempDir()
	s := open(t, dir)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			c := helper("TestHelperWrites", fmt.Sprintf("BEE_TEST_WRITE=%s %c %d", dir, 'a'+i, each))
			if said, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
	for i := range 5 {
		var said bytes.Buffer
		c := helper("TestHelperWrites", fmt.Sprintf("BEE_TEST_WRITE=%s %c %d", dir, 'k'+i, 1<<20))
		c.Stdout = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for first := string('k'+rune(i)) + "0"; ; time.Sleep(time.Millisecond) {
			if _, err := s.Run(t.Context(), first); err == nil {
				break
			} else if !core.IsKind(err, core.NotFound) || t.Context().Err() != nil {
				t.Fatal(err)
			}
		}
		c.Process.Kill() // then it writes on
		c.Wait()         //nolint:errcheck // it was killed
	}
	all.Wait()
	runs, err := s.Runs(t.Context(), Filter{})
	if err != nil {
		t.Fatal(err)
	}
	whole := 0
	for _, r := range runs {
		if r.ID[0] < 'k' {
			whole++
		}
	}
	if whole != each*writers {
		t.Errorf("%d runs of those that were not killed, want %d", whole, each*writers)
	}
	var verdict string
	if err := s.db.db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("the database is %q, %v", verdict, err)
	}
}

func TestHelperWrites(t *testing.T) {
	var (
		dir, name string
		n         int
	)
	if _, err := fmt.Sscan(os.Getenv("BEE_TEST_WRITE"), &dir, &name, &n); err != nil {
		t.Skip("only a helper of TestProcessesShareAState")
	}
	s := open(t, dir)
	for i := range n {
		r := put(t, s, Run{ID: fmt.Sprint(name, i), Name: name, State: Queued})
		if err := s.PutAttempt(t.Context(), Attempt{Run: r.ID, N: 1, Site: "lab"}, i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
}

func journalOf(t *testing.T, s *Store) string {
	t.Helper()
	var is string
	if err := s.db.db.QueryRow("PRAGMA journal_mode").Scan(&is); err != nil {
		t.Fatal(err)
	}
	return is
}

func TestEachPlaceHasItsJournal(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	want := map[journal]string{memory: "wal", rollback: "truncate"}[mode]
	if is := journalOf(t, s); is != want {
		t.Errorf("the journal is %s, want %s", is, want)
	}
	put(t, s, Run{Name: "x", State: Queued})
	if _, err := os.Stat(filepath.Join(dir, "state.db-shm")); (err == nil) != (mode == memory) {
		t.Errorf("memory is shared: %v", err == nil)
	}
}

// TestAStateOfOneMachineBecomesOneOfMany, once nobody has it open any more.
func TestAStateOfOneMachineBecomesOneOfMany(t *testing.T) {
	dir := t.TempDir()
	before, err := openWith(t.Context(), dir, memory)
	if err != nil {
		t.Fatal(err)
	}
	r := put(t, before, Run{Name: "x", State: Queued})
	impatient, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = openWith(impatient, dir, rollback)
	if !core.IsKind(err, core.Busy) || !strings.Contains(core.Remedy(err), "pkill") {
		t.Errorf("while another process has it open: %v (%s)", err, core.Remedy(err))
	}
	if got, err := before.Run(t.Context(), r.ID); err != nil || got.Name != "x" {
		t.Errorf("who had it open: %+v, %v", got, err)
	}
	opened := make(chan *Store, 1)
	go func() {
		after, err := openWith(context.Background(), dir, rollback)
		if err != nil {
			t.Error(err)
		}
		opened <- after
	}()
	time.Sleep(100 * time.Millisecond) // so that it has to wait
	if err := before.Close(); err != nil {
		t.Error(err)
	}
	after := <-opened
	if after == nil {
		return
	}
	defer after.Close()
	if got, err := after.Run(t.Context(), r.ID); err != nil || got.Name != "x" || journalOf(t, after) != "truncate" {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
	// A process that takes the directory for one of its machine alone, as on its server,
	// does not change the journal back.
	server, err := openWith(t.Context(), dir, memory)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if is := journalOf(t, server); is == "wal" {
		t.Error("it became one of one machine again")
	}
}

func TestWhichFileSystemsAreOfManyMachines(t *testing.T) {
	for dir, want := range map[string]journal{"/proc": rollback, "/sys": rollback, t.TempDir(): memory} {
		if j, err := journalFor(dir); err != nil || j != want {
			t.Errorf("%s: %v, %v", dir, j, err)
		}
	}
}
