package ranks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fake writes a process of a /proc.
func fake(t *testing.T, proc string, pid, parent int, environ ...string) {
	t.Helper()
	dir := filepath.Join(proc, fmt.Sprint(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"environ": strings.Join(environ, "\x00") + "\x00", "stat": fmt.Sprintf("%d (a ) b) S %d 1 1", pid, parent)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhoIsARank(t *testing.T) {
	t.Setenv("BEE_RUN_ID", "r1")
	proc := t.TempDir()
	fake(t, proc, 10, 1, "BEE_RUN_ID=r1", "BEE_TASK=1")                                  // the job's shell
	fake(t, proc, 11, 10, "BEE_RUN_ID=r1", "BEE_TASK=1")                                 // mpirun
	fake(t, proc, 12, 11, "OMPI_COMM_WORLD_RANK=0", "BEE_RUN_ID=r1", "BEE_TASK=1")       // a script
	fake(t, proc, 13, 12, "BEE_RUN_ID=r1", "BEE_TASK=1", "OMPI_COMM_WORLD_RANK=0")       // and the program in it
	fake(t, proc, 14, 11, "PMI_RANK=1", "BEE_RUN_ID=r1")                                 // another
	fake(t, proc, 15, 1, "PMI_RANK=1", "BEE_RUN_ID=r2")                                  // of another run
	fake(t, proc, 16, 1, "NOT_PMI_RANK=1", "BEE_RUN_ID=r1", "X=PMI_RANK=1 BEE_TASK=yes") // no rank
	fake(t, proc, 17, 1)
	found, err := look(proc)
	if err != nil || len(found) != 5 {
		t.Errorf("found %v, %v", found, err)
	}
	got := leaves(found)
	slices.Sort(got)
	if !slices.Equal(got, []int{13, 14}) {
		t.Errorf("got %v", got)
	}
}
