package fair

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestCMA: what prevents direct copies between processes, by the kernel's words for them.
func TestCMA(t *testing.T) {
	const all, none = "000001ffffffffff", "0000000000000000"
	status := func(capabilities, seccomp string) string {
		return "Name:\tx\nCapEff:\t" + capabilities + "\nSeccomp:\t" + seccomp + "\nSeccomp_filters:\t0\n"
	}
	for name, c := range map[string]struct {
		status, scope string
		want          CMA
	}{
		"nothing":                     {status(none, "0"), "0\n", CMAOpen},
		"no Yama":                     {status(none, "0"), "", CMAOpen},
		"Yama":                        {status(none, "0"), "1\n", CMARestricted},
		"Yama, and root":              {status(all, "0"), "1\n", CMAOpen},
		"Yama that forbids it to all": {status(all, "0"), "3\n", CMARestricted},
		"a filter":                    {status(all, "2"), "0\n", CMAFiltered},
	} {
		if got := cma(c.status, c.scope); got != c.want {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// TestSettingsOfMPI: of a process that has mapped an MPI library, the variables that choose how messages are sent are
// noted, and of no other. A program with that name stands in for the library.
func TestSettingsOfMPI(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(sleep)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]CMA{"libmpi.so.40": CMAOff, "solver": ""} {
		program := filepath.Join(t.TempDir(), name)
		if err := core.WriteProgram(program, raw, 0o755); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(program, "60")
		c.Env = []string{"BEE_RUN_ID=of-" + name, "OMPI_MCA_btl=self,tcp", singleCopy + "=none", "OMPI_MCA_btl_tcp_if_include=lo"}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() }) //nolint:errcheck // it is killed
		w := Start(t.Context(), Sought{Variable: "BEE_RUN_ID", Value: "of-" + name, Tools: "/.bee", Here: true})
		lookTwice(t, w)
		found := w.Names()
		var settings map[string]string
		if want != "" {
			settings = map[string]string{"OMPI_MCA_btl": "self,tcp", singleCopy: "none"}
		}
		if found.Busiest != 1 || found.CMA != want || !maps.Equal(found.Settings, settings) {
			t.Errorf("%s: %q, %v of %d processes; expected %q, %v", name, found.CMA, found.Settings, found.Busiest, want, settings)
		}
	}
}

// TestJoin: of other hosts, only what differs is kept.
func TestJoin(t *testing.T) {
	seen := func(sum string) Found {
		return Found{Files: map[string]string{"/a": "1 1", "/b": "2 2"}, Programs: map[string]string{"/a": "x", "/b": sum}}
	}
	f := seen("y")
	f.Join([]Found{seen("y"), seen("z")})
	if len(f.Others) != 2 || len(f.Others[0].Files) != 0 || len(f.Others[0].Programs) != 0 || !maps.Equal(f.Others[1].Programs, map[string]string{"/b": "z"}) {
		t.Errorf("others are %+v", f.Others)
	}
}
