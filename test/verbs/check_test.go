package verbs

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestRandomOperationsAgainstAModel runs verbscheck, on memory that is shared and on memory
// that its owner copies.
func TestRandomOperationsAgainstAModel(t *testing.T) {
	program, h := compile(t, nil, []string{"test/verbs/programs/verbscheck.c"}, "-libverbs"), newHost(t)
	rounds := 500
	if testkit.Everything() {
		rounds = 50000
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
