package mpi

import (
	"slices"
	"testing"
)

// TestPrograms finds what a command needs for certain, and nothing that it may do without.
func TestPrograms(t *testing.T) {
	for script, want := range map[string][]string{
		"hpcc":                                     {"sh", "hpcc"},
		"set -e; cd /work\nmpirun -n 2 hpcc":       {"sh", "mpirun"},
		"mpirun -n 2 hpcc && cat out":              {"sh", "mpirun", "hpcc"},
		"command -v hpcc || fallback":              {"sh"},
		"X=1 solver in; echo done":                 {"sh", "solver", "echo"},
		"/opt/solver; ./other; $PROGRAM":           {"sh"},
		"if true; then mpirun solver; fi":          {"sh", "mpirun"},
		"export OMP_NUM_THREADS=1; exec gmx mdrun": {"sh", "gmx"},
		"f() { nothing; }; f":                      {"sh"},
	} {
		if got := Programs([]string{"sh", "-c", script}); !slices.Equal(got, want) {
			t.Errorf("%q needs %q, expected %q", script, got, want)
		}
	}
	if got := Programs([]string{"mpirun", "-n", "2", "hpcc", "in"}); !slices.Equal(got, []string{"mpirun", "hpcc"}) {
		t.Errorf("a list needs %q", got)
	}
	if got := Programs(nil); got != nil {
		t.Errorf("nothing needs %q", got)
	}
}
