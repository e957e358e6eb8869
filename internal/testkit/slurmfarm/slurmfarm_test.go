package slurmfarm

import (
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
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

func TestAccountedJobNeedsAnAccount(t *testing.T) {
	f := StartAccounted(t, 1, "phys", "MaxWall=30")
	if out, err := f.Do("srun", "--account=phys", "--mpi=none", "hostname"); err != nil || !strings.Contains(out, "h1\n") {
		t.Fatalf("%v: %s\n%s", err, out, f.logs())
	}
	if out, err := f.Do("srun", "--account=other", "--mpi=none", "hostname"); err == nil || !strings.Contains(out, "Invalid account") {
		t.Errorf("an account that is none: %v: %s", err, out)
	}
}

func TestOtherSlurms(t *testing.T) {
	testkit.Long(t, "TestJobRunsOnAllNodes")
	WithOtherSlurms(t, "TestJobRunsOnAllNodes", "TestAccountedJobNeedsAnAccount")
}
