package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestBenchSharesContainers: with `reuse: block`, one container has the points of a block that
// differ in their command. Each has figures of its own files.
func TestBenchSharesContainers(t *testing.T) {
	t.Parallel()
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	study := bee.File("study.yaml", fmt.Sprintf(`study: shared
job: {image: "docker-archive:%s", workdir: /work, run: "echo n=${n} > figures; sleep 0.0${n}; readlink /proc/self/ns/mnt", outputs: [{from: /work/figures, to: .}]}
vary: {n: [1, 2]}
environments: {plain: {runtime: rootless}, equal: {runtime: rootless}}
metrics:
  n: {keyvalue: '^(\w+)=(\d+)$', file: figures, key: n, unit: "1", better: lower, primary: true}
  namespace: {regex: '^mnt:\[(\d+)\]', unit: "1", better: lower}
  seconds: {builtin: seconds}
method: {blocks: 1, reuse: block}
`, image))
	out := filepath.Join(bee.Dir, "out")
	bee.Must("bench", "run", "--wait", "0s", study, "-o", out)
	for environment, containers := range map[string]int{"plain": 4, "equal": 2} { // two blocks, and A/A
		namespaces := map[string]map[float64]bool{}
		for _, row := range rowsOf(t, out, environment) {
			n, namespace := row.Metrics["n"], row.Metrics["namespace"]
			if row.Status != "ok" || row.Shared != 2 || len(n) != 1 || len(namespace) != 1 || row.Point != fmt.Sprintf("n=%v", n[0].Value) {
				t.Fatalf("%s: %+v", environment, row)
			}
			if namespaces[row.Run] == nil {
				namespaces[row.Run] = map[float64]bool{}
			}
			namespaces[row.Run][namespace[0].Value] = true
		}
		if len(namespaces) != containers {
			t.Errorf("%s had %d containers, expected %d", environment, len(namespaces), containers)
		}
		for run, seen := range namespaces {
			if len(seen) != 1 {
				t.Errorf("commands of run %s were in %d namespaces", run, len(seen))
			}
		}
	}
	var plan struct {
		Reuse        string `json:"reuse"`
		Environments []struct {
			Containers int `json:"containers"`
		} `json:"environments"`
	}
	bee.JSON(&plan, "bench", "plan", study, "--json")
	if plan.Reuse != "block" || len(plan.Environments) != 2 || plan.Environments[0].Containers != 1 {
		t.Errorf("the plan is %+v", plan)
	}
}
