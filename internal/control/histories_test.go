package control

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
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

// histories is how many random histories are played: many in one of the two
// runs of `make test`, as root, for they care for no user. BEE_TEST_HISTORIES
// asks for another number.
func histories() int {
	if n, err := strconv.Atoi(os.Getenv("BEE_TEST_HISTORIES")); err == nil {
		return n
	}
	if testkit.Strict() && os.Geteuid() == 0 {
		return 20_000
	}
	return 2000
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

// template is an empty state directory beside a history's, made once: most of
// the time of a history would go there.
func template(dir string) string { return filepath.Join(filepath.Dir(dir), "template") }

func makeTemplate(t testing.TB, root string) {
	store, err := state.Open(t.Context(), filepath.Join(root, "template"))
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}

// play plays one history and gives what was promised and not kept, or "".
func play(t *testing.T, dir string, c *choices) string {
	t.Helper()
	var fault string
	synctest.Test(t, func(t *testing.T) {
		os.RemoveAll(dir)
		if err := copyTree(template(dir), filepath.Join(dir, "home")); err != nil {
			t.Fatal(err)
		}
		m := newModel(c, dir)
		m.play(t.Context())
		if len(m.faults) > 0 {
			fault = m.String()
		}
		time.Sleep(400 * time.Hour) // for all that the model has begun to end
	})
	return fault
}

// shorten looks for a simpler history with the same kind of end: it takes
// choices back to where nothing goes wrong, as long as something still does.
func shorten(t *testing.T, dir string, given []int) ([]int, string) {
	best, fault := given, ""
	for again := true; again; {
		again = false
		for i := range best {
			if best[i] == 0 {
				continue
			}
			tried := append([]int(nil), best...)
			tried[i] = 0
			if f := play(t, dir, &choices{given: tried}); f != "" {
				best, fault, again = tried, f, true
			}
		}
	}
	for len(best) > 0 && best[len(best)-1] == 0 {
		best = best[:len(best)-1]
	}
	return best, fault
}

// TestRandomHistories lets sites be lost, queues be slow, controllers, heads
// and lines die at any step, checkpoints fail, rot, or find no space, in
// virtual time. Whatever happens: never two attempts at once, never back behind
// the last good checkpoint, never anything left, always an end.
func TestRandomHistories(t *testing.T) {
	n, seed := histories(), uint64(time.Now().UnixNano())
	t.Logf("%d histories from seed %d", n, seed)
	root := scratch(t)
	makeTemplate(t, root)
	var (
		next  atomic.Int64
		found atomic.Pointer[[]int]
		all   sync.WaitGroup
	)
	for worker := range runtime.NumCPU() {
		all.Go(func() {
			dir := filepath.Join(root, strconv.Itoa(worker))
			for i := next.Add(1); i <= int64(n) && found.Load() == nil; i = next.Add(1) {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				c := &choices{draw: random.IntN}
				if play(t, dir, c) != "" {
					found.CompareAndSwap(nil, &c.given)
				}
			}
		})
	}
	all.Wait()
	if f := found.Load(); f != nil {
		short, fault := shorten(t, filepath.Join(root, "short"), *f)
		t.Fatalf("%s\nshortened: %v\n(add it to testdata/histories once it is mended)", fault, short)
	}
}

// TestKnownHistories plays those that once went wrong, one on each line.
func TestKnownHistories(t *testing.T) {
	f, err := os.Open("testdata/histories")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	root := scratch(t)
	makeTemplate(t, root)
	dir := filepath.Join(root, "known")
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(text) == "" {
			continue
		}
		var given []int
		for _, word := range strings.Fields(text) {
			n, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			given = append(given, n)
		}
		if fault := play(t, dir, &choices{given: given}); fault != "" {
			t.Error(fmt.Sprint(given) + ": " + fault)
		}
	}
}
