package runner

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// histories is how many random histories are played, and from which seed: another one
// each time, unless BEE_TEST_SEED names one that is to be played again. BEE_TEST_HISTORIES
// says how many, as in `make histories`.
func histories(t *testing.T) (n int, seed uint64) {
	switch {
	case os.Getenv("BEE_TEST_HISTORIES") != "":
		var err error
		if n, err = strconv.Atoi(os.Getenv("BEE_TEST_HISTORIES")); err != nil {
			t.Fatal(err)
		}
	case testkit.Everything():
		n = 100_000
	case testing.Short():
		n = 300
	default:
		n = 2000
	}
	given := os.Getenv("BEE_TEST_SEED")
	if given == "" {
		return n, uint64(time.Now().UnixNano())
	}
	seed, err := strconv.ParseUint(given, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n, seed
}

// scratch is a directory in memory where there is one: a history writes many
// small files, and none of them has to last.
func scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "bee-histories-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newHome opens a home outside of any history's time.
func newHome(t testing.TB, dir string) *home {
	store, err := state.OpenAlone(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	// A full disk is a table that is not empty: see disk.
	statements := []string{"CREATE TABLE IF NOT EXISTS full (is_full INTEGER)"}
	for _, table := range []string{"runs", "attempts", "events"} {
		statements = append(statements, fmt.Sprintf("CREATE TRIGGER IF NOT EXISTS full_%s BEFORE INSERT ON %s WHEN EXISTS (SELECT 1 FROM full) BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END", table, table))
	}
	for _, s := range statements {
		if err := store.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	return &home{dir: dir, store: store}
}

func (h *home) close() { h.store.Close() }

// play plays one history and gives what was promised and not kept, or "".
func (h *home) play(t *testing.T, c *choices) string {
	t.Helper()
	defer watch(t, c).Stop()
	var fault string
	synctest.Test(t, func(t *testing.T) {
		world := filepath.Join(h.dir, "world")
		os.RemoveAll(world)
		m := newModel(h, c, world)
		m.play(t.Context())
		h.end = m.end()
		m.forget()
		if len(m.faults) > 0 {
			fault = m.String()
		}
		m.quiet()
		time.Sleep(400 * time.Hour) // for all that the model has begun to end
	})
	return fault
}

// patience is for how long one history may play, by the real clock: it takes a
// hundredth of a second by itself.
const patience = 3 * time.Minute

// watch ends the process when a history plays for too long, as it waits for something
// outside of virtual time or repeats itself: the test would never end. It prints the history
// and the stacks of its goroutines.
func watch(t testing.TB, c *choices) *time.Timer {
	return time.AfterFunc(patience, func() {
		stacks := make([]byte, 64<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		fmt.Printf("%s: this history has not ended after %v:\n%v\n", t.Name(), patience, c)
		for one := range strings.SplitSeq(string(stacks), "\n\n") {
			if head, _, _ := strings.Cut(one, "\n"); strings.Contains(head, "synctest bubble") {
				fmt.Printf("%s\n\n", one)
			}
		}
		os.Exit(1)
	})
}

// shorten looks for a simpler history with the same kind of end: it takes
// choices back to where nothing goes wrong, many at once as long as that goes,
// then one by one, for a few minutes at most.
func (h *home) shorten(t *testing.T, given map[choice]int) (map[choice]int, string) {
	best, fault, begun := given, "", time.Now()
	try := func(without []choice) bool {
		if time.Since(begun) > patience {
			return false
		}
		tried := maps.Clone(best)
		for _, k := range without {
			delete(tried, k)
		}
		f := h.play(t, &choices{given: tried})
		if f != "" {
			best, fault = tried, f
		}
		return f != ""
	}
	for size := len(best); size > 0; {
		shorter := false
		for part := range slices.Chunk(slices.Collect(maps.Keys(best)), size) {
			shorter = try(part) || shorter
		}
		if !shorter || size > len(best) {
			size /= 2
		}
	}
	if fault == "" {
		try(nil)
	}
	return best, fault
}

// mutes is in how many of four histories one kind of fault does not come: those
// that do then come closer to each other.
const mutes = 1

// drawn returns random choices. Each depends on its name alone, not on what was decided
// before: equal seeds play alike although goroutines take turns in another order, or the
// code asks in another one.
func drawn(seed, history uint64) *choices {
	random := func(what string, nth int) *rand.Rand {
		name := fnv.New64a()
		fmt.Fprintf(name, "%d %d %s", history, nth, what) //nolint:errcheck // a hash takes all
		return rand.New(rand.NewPCG(seed, name.Sum64()))
	}
	return &choices{draw: func(what string, nth, n int) int {
		if random(what, -1).IntN(4) < mutes {
			return 0
		}
		return random(what, nth).IntN(n)
	}}
}

// TestRandomHistories lets sites be lost and cut off, queues be slow,
// controllers and heads die at any step, clocks jump, checkpoints tear, fail,
// rot, or find no space, and users stop and resume, in virtual time. Whatever
// happens: never two attempts at once, never back behind the last good
// checkpoint, never anything left, always an end.
func TestRandomHistories(t *testing.T) {
	n, seed := histories(t)
	playRandom(t, n, seed, false)
}

// TestHistoriesOfLiars has sites and heads lie besides, in a tenth as many histories.
// Whatever they say: no controller panics, each run ends or is suspended with its reason,
// nothing is left, no other run is touched, and no file is written but where the outputs
// and the run's own files belong.
func TestHistoriesOfLiars(t *testing.T) {
	n, seed := histories(t)
	playRandom(t, max(n/10, min(n, 300)), seed, true)
}

// writeEnds writes how each history has ended, to compare two versions by equal seeds, into
// the file that BEE_TEST_ENDS names.
func writeEnds(t *testing.T, ends []string) {
	path := os.Getenv("BEE_TEST_ENDS")
	if path == "" {
		return
	}
	if err := os.WriteFile(path+"."+t.Name(), []byte(strings.Join(ends, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// end is how a history has ended: the run's state and kind, and its attempts with theirs.
func (m *model) end() string {
	run, err := m.store.Run(context.Background(), m.run)
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %q", run.State, run.Kind)
	for _, a := range m.attempts() {
		code := "-"
		if a.ExitCode != nil {
			code = strconv.Itoa(*a.ExitCode)
		}
		text += fmt.Sprintf("; %d %s %q %s %v", a.N, a.Site, a.Kind, code, a.Released())
	}
	return text
}

func playRandom(t *testing.T, n int, seed uint64, lies bool) {
	testkit.Figure(t, "%d histories; BEE_TEST_SEED=%d plays them again", n, seed)
	// A history leaves nothing: garbage is collected when there is much rather than often.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	root := scratch(t)
	var (
		next  atomic.Int64
		found atomic.Pointer[choices]
		fault string
		all   sync.WaitGroup
		ends  = make([]string, n)

		reached = pairs{new(sync.Mutex), map[string]int{}}
	)
	for worker := range runtime.NumCPU() {
		h := newHome(t, filepath.Join(root, strconv.Itoa(worker)))
		h.lies, h.pairs = lies, reached
		all.Go(func() {
			defer h.close()
			for i := next.Add(1); i <= int64(n) && found.Load() == nil; i = next.Add(1) {
				c := drawn(seed, uint64(i))
				if f := h.play(t, c); f != "" && found.CompareAndSwap(nil, c) {
					fault = f
				}
				ends[i-1] = h.end
			}
		})
	}
	all.Wait()
	writeEnds(t, ends)
	reached.report(t)
	c := found.Load()
	if c == nil {
		return
	}
	fmt.Printf("%s\n%v\n", fault, c) // now: it may be one that does not end when it is played again
	h := newHome(t, filepath.Join(root, "short"))
	h.lies = lies
	defer h.close()
	if short, f := h.shorten(t, c.given); f != "" {
		t.Fatalf("%s\n(add this history to testdata/histories once it is mended)\n%v", f, &choices{given: short})
	}
	t.Fatalf("%s\n(once; not again when it was played again)", fault)
}

// TestKnownHistories plays those that once went wrong, one on each line.
func TestKnownHistories(t *testing.T) {
	for file, lies := range map[string]bool{"histories": false, "lies": true} {
		t.Run(file, func(t *testing.T) { playKnown(t, filepath.Join("testdata", file), lies) })
	}
}

func playKnown(t *testing.T, name string, lies bool) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := newHome(t, filepath.Join(scratch(t), "known"))
	h.lies = lies
	defer h.close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "# ")
		if strings.TrimSpace(text) == "" {
			continue
		}
		given, err := parseChoices(text)
		if err != nil {
			t.Fatal(err)
		}
		if fault := h.play(t, &choices{given: given}); fault != "" {
			t.Error(text + ": " + fault)
		}
	}
}
