package hostile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// keeping is a job that writes a checkpoint and can then do no more: its run is suspended.
func keeping(t *testing.T, lines ...string) (*testkit.Bee, string) {
	t.Helper()
	b, job := busyboxJob(t, append(lines, "workdir: /work", "checkpoint: {}", "wait: 1ms", "run: 'echo computed >state; exit 85'", "outputs: [{from: /work/state, to: ./results}]")...)
	if r := b.Try("run", "-q", job); r.Code == 0 {
		t.Fatalf("it ended well: %+v", r)
	}
	var runs []struct{ ID, State string }
	b.JSON(&runs, "ps", "-a", "--json")
	if len(runs) != 1 || runs[0].State != "suspended" {
		t.Fatalf("runs: %+v\n%s", runs, b.Must("show", runs[0].ID))
	}
	return b, runs[0].ID
}

// swept is what a sweep reports of one thing.
type swept struct{ Site, Owner, Kept, Error string }

func sweep(t *testing.T, b *testkit.Bee, args ...string) []swept {
	t.Helper()
	var list []swept
	b.JSON(&list, append([]string{"sweep", "--json"}, args...)...)
	return list
}

// age makes a run's directory older than one that is just being made.
func age(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(b.Dir, "state", "runs", id), long, long); err != nil {
		t.Fatal(err)
	}
}

func loseRecords(t *testing.T, b *testkit.Bee) {
	t.Helper()
	for _, name := range []string{"state.db", "state.db-wal", "state.db-shm"} {
		if err := os.Remove(filepath.Join(b.Dir, "state", name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func manifests(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func TestLostRecordsAreAdopted(t *testing.T) {
	b, id := keeping(t)
	loseRecords(t, b)
	if r := b.Try("ps", "-a"); r.Code != 0 || !strings.Contains(r.Stdout, id) || !strings.Contains(r.Stderr, id) {
		t.Errorf("nothing is said of it: %+v", r)
	}
	age(t, b, id)
	if list := sweep(t, b); len(list) != 0 {
		t.Errorf("swept %+v", list)
	}
	if n := manifests(t, filepath.Join(b.Dir, "state", "runs", id, "checkpoints")); n == 0 {
		t.Error("its checkpoints are gone")
	}
	if r := b.Try("rm", id); r.Code == 0 {
		t.Error("the only copy of its checkpoints was removed without a word")
	}
	b.Must("rm", "-f", id)
}

func TestSweepKeepsDirectoriesWithoutRecord(t *testing.T) {
	b, id := keeping(t)
	loseRecords(t, b)
	dir := filepath.Join(b.Dir, "state", "runs", id)
	if err := os.Remove(filepath.Join(dir, "record.json")); err != nil {
		t.Fatal(err)
	}
	age(t, b, id)
	list := sweep(t, b)
	if len(list) != 1 || list[0].Owner != id || list[0].Kept == "" || manifests(t, filepath.Join(dir, "checkpoints")) == 0 {
		t.Errorf("swept %+v", list)
	}
	if list := sweep(t, b, "--force"); len(list) != 1 || list[0].Kept != "" {
		t.Errorf("swept by force: %+v", list)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there by force: %v", err)
	}
}

// TestOlderRecordsLoseNoNewerRuns: a database of yesterday was put back.
func TestOlderRecordsLoseNoNewerRuns(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	b, id := keeping(t, "store: "+store)
	b.Must("ps")
	user := strings.TrimSpace(readFile(t, filepath.Join(b.Dir, "state", "installation")))
	loseRecords(t, b)
	dir := filepath.Join(b.Dir, "state", "runs", id)
	aside := filepath.Join(b.Dir, "aside")
	if err := os.Rename(dir, aside); err != nil {
		t.Fatal(err)
	}
	b.Must("ps") // the records of yesterday: none
	own := filepath.Join(store, user+"@"+id)
	if list := sweep(t, b, "--store", store); len(list) != 1 || list[0].Kept == "" || manifests(t, own) == 0 {
		t.Errorf("swept %+v", list)
	}
	if err := os.Rename(aside, dir); err != nil {
		t.Fatal(err)
	}
	age(t, b, id)
	sweep(t, b, "--store", store)
	if r := b.Try("show", id); r.Code != 0 {
		t.Errorf("its record beside its files was not adopted: %+v", r)
	}
	if manifests(t, own) == 0 {
		t.Error("its checkpoints in the store are gone")
	}
	b.Must("rm", "-f", id)
}

func TestWhatWasLeftInAStoreStays(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	b, id := keeping(t, "store: "+store)
	b.Must("stop", id)
	if r := b.Try("rm", id); r.Code == 0 {
		t.Error("the only copy of its checkpoints was removed without a word")
	}
	b.Must("rm", "--leave-store", id)
	list := sweep(t, b, "--store", store)
	left, err := filepath.Glob(filepath.Join(store, "*@"+id))
	if err != nil || len(left) != 1 || manifests(t, left[0]) == 0 || len(list) != 1 || list[0].Kept == "" {
		t.Errorf("left %v, %v; swept %+v", left, err, list)
	}
	sweep(t, b, "--store", store, "--force")
	if left, _ := filepath.Glob(filepath.Join(store, "*")); len(left) > 0 {
		t.Errorf("by force, it is there: %v", left)
	}
}

func TestRemovingFinishedRunsKeepsOnlyCopiesOfResults(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", "run: 'echo 42 >resutl'", "outputs: [{from: /work/result, to: ./results}]")
	if r := b.Try("run", "-q", job); r.Code != 202 {
		t.Fatalf("got %+v", r)
	}
	other := b.File("other.yaml", strings.Replace(b.Read("job.yaml"), "resutl", "result", 1))
	b.Must("run", "-q", other)
	r := b.Try("rm", "--finished")
	kept, err := filepath.Glob(filepath.Join(b.Dir, "state", "runs", "*", "volume", "resutl"))
	if err != nil || len(kept) != 1 || r.Code == 0 || strings.TrimSpace(r.Stdout) == "" {
		t.Errorf("kept %v, %v: %+v", kept, err, r)
	}
	b.Must("rm", "--finished", "--force")
	if kept, _ := filepath.Glob(filepath.Join(b.Dir, "state", "runs", "*")); len(kept) != 0 {
		t.Errorf("by force, these are there: %v", kept)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
