package runner

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// pairs counts the pairs of a state and an event that histories reached.
type pairs struct {
	mu    *sync.Mutex
	times map[string]int
}

func (p pairs) add(s state.AttemptState, _ state.Autostart, e machinery.Event) {
	if p.mu == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times[fmt.Sprintf("%s %s", s, e)]++
}

// report prints how many pairs were reached, and writes all of them beside the ends.
func (p pairs) report(t *testing.T) {
	t.Helper()
	testkit.Figure(t, "%d pairs of a state and an event reached", len(p.times))
	path := os.Getenv("BEE_TEST_ENDS")
	if path == "" {
		return
	}
	var lines []string
	for _, pair := range slices.Sorted(maps.Keys(p.times)) {
		lines = append(lines, fmt.Sprintf("%s %d", pair, p.times[pair]))
	}
	if err := os.WriteFile(path+"."+t.Name()+".pairs", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
