package slurmfarm

import (
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func TestJobRunsOnAllNodes(t *testing.T) {
	f := Start(t, 2)
	out, err := f.Do("srun", "-N2", "--mpi=none", "hostname")
	if err != nil || !strings.Contains(out, "h1\n") || !strings.Contains(out, "h2\n") {
		t.Fatalf("%v: %s\n%s", err, out, f.logs())
	}
}
