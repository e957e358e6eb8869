package verbs

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestRandomOperationsAgainstAModel runs verbscheck, on memory that is shared and on memory
// that its owner copies.
func TestRandomOperationsAgainstAModel(t *testing.T) {
	newHost(t).check(t, 500)
}

// TestRandomOperationsBetweenMachines: the same between two machines, one of which has a side each.
func TestRandomOperationsBetweenMachines(t *testing.T) {
	m := newMachines(t)
	t.Run("seeds", func(t *testing.T) { m.check(t, 100, "OTHER_SOCKET="+m.sockets[1]) })
	for i, p := range m.ports {
		if s := p.Statistics(); s.Forwarded == 0 || s.Counters[message.CountDirectBytes] != 0 {
			t.Errorf("of port %d, %d bytes were forwarded and %d copied directly", i, s.Forwarded, s.Counters[message.CountDirectBytes])
		}
	}
	m.empty(t)
}

// check runs rounds of verbscheck with each seed, and a hundred times as many where all is tested.
func (h host) check(t *testing.T, rounds int, variables ...string) {
	program := compile(t, nil, []string{"test/verbs/programs/verbscheck.c"}, "-libverbs")
	if testkit.Everything() {
		rounds *= 100
	}
	for seed := range 4 {
		for _, file := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%t", seed, file), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				args := []string{program, fmt.Sprint(seed), fmt.Sprint(rounds)}
				if file {
					args = append(args, filepath.Join(t.TempDir(), "memory"))
				}
				c, out := h.command(ctx, 0, args...)
				c.Env = append(c.Env, variables...)
				if err := c.Run(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			})
		}
	}
}

func TestNoWriteIsLostWhilePagesMove(t *testing.T) {
	program, h := compile(t, nil, []string{"test/verbs/programs/move.c"}, "-libverbs"), newHost(t)
	for _, args := range [][]string{{"200", "65536"}, {"50", "1048576"}} {
		c, out := h.command(t.Context(), 0, append([]string{program}, args...)...)
		if err := c.Run(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
	}
}
