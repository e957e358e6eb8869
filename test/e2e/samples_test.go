package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// usedBy is what `bee metrics --json` has of the nodes of a run.
type usedBy struct {
	Samples []struct {
		Time    time.Time
		Attempt int
		Seconds float64
		Nodes   int
		Mean    struct {
			Cores float64
		}
		ByNode []*struct {
			Cores       float64
			MemoryBytes float64 `json:"memory_bytes"`
		} `json:"by_node"`
	}
}

// TestSamplesOfARunThatMoves: what both hosts use is recorded while the job computes on one of
// them, also in its next attempt and by a further controller.
func TestSamplesOfARunThatMoves(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "nodes: 2", "workdir: /work", "checkpoint: {grace: 30s, file: /work/STOP, paths: [/work/state]}", `run: |
  x=$(head -c 20000000 /dev/zero | tr '\0' x)
  until [ -e STOP ] || [ -e go ]; do :; done
  [ -e go ] || echo ${#x} > state`)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, hosts: 2, oversubscribe: true}\n  - {name: two, provider: local, hosts: 2, oversubscribe: true}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	sampled := func(attempt int) {
		t.Helper()
		testkit.Eventually(t, 2*time.Minute, func() error {
			var v usedBy
			b.JSON(&v, "metrics", "--json", id)
			for _, s := range v.Samples {
				if s.Attempt == attempt && s.Nodes == 2 && s.Seconds > 0 && s.Mean.Cores > 0 && len(s.ByNode) == 2 && s.ByNode[0] != nil && s.ByNode[1] != nil && s.ByNode[0].Cores > 0.05 && s.ByNode[0].MemoryBytes > 20e6 {
					return nil
				}
			}
			return b.Explained(id, fmt.Sprintf("no sample of attempt %d has what its job uses: %+v", attempt, v))
		})
	}
	sampled(1)
	for _, pid := range b.Controllers() {
		testkit.Kill(pid)
	}
	b.Must("supervise")
	b.Must("--sites", sites, "move", "--site", "two", id)
	sampled(2)
	b.Touch(id, "/work/go")
	if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	sampled(1)
	sampled(2)
	var v struct {
		Use struct {
			Cores       float64
			Seconds     float64
			MemoryBytes float64 `json:"memory_bytes"`
		}
	}
	if b.JSON(&v, "show", "--json", id); v.Use.Cores < 0.05 || v.Use.MemoryBytes < 20e6 || v.Use.Seconds < 2 {
		t.Errorf("use of the run: %+v", v.Use)
	}
	const numbers, curves = 4, 3 // no GPUs; of each the mean and both nodes
	if page := b.Must("report", id); strings.Count(page, `<svg class="curve"`) != numbers*curves || strings.Count(page, "<polyline") != 2*numbers*curves {
		t.Errorf("the report has not %d curves with a line for each attempt:\n%s", numbers*curves, page)
	}
}
