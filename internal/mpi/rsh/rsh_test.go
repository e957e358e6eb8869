package rsh

import (
	"slices"
	"testing"
)

func TestCarriedEnvironment(t *testing.T) {
	got := carried([]string{
		"PATH=/opt/x/bin", "OMP_NUM_THREADS=2", "EMPTY=", "BEE_RUN_ID=r", "BEE_NODE_RANK=0", "PWD=/x",
		"OMPI_MCA_ess=env", "PMIX_RANK=0", "PMI_FD=9", "SLURM_JOBID=1", "PMIND=1",
	})
	want := []string{"PATH=/opt/x/bin", "OMP_NUM_THREADS=2", "EMPTY=", "BEE_RUN_ID=r", "PMIND=1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		name, host, command string
		args                []string
	}{
		{"Open MPI", "h1", "  orted -mca ess \"env\"", []string{"h1", "  orted", "-mca", "ess", "\"env\""}},
		{"Hydra", "h1", "\"/opt/bin/hydra_pmi_proxy\" --control-port h0:1", []string{"-x", "h1", "\"/opt/bin/hydra_pmi_proxy\"", "--control-port", "h0:1"}},
		{"Intel MPI", "h1", "proxy -v", []string{"-q", "-x", "h1", "proxy", "-v"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, command, err := parse(c.args)
			if err != nil || host != c.host || command != c.command {
				t.Errorf("got %q, %q, %v", host, command, err)
			}
		})
	}
	for _, bad := range [][]string{nil, {"-x"}, {"host"}, {"-x", "host"}} {
		if _, _, err := parse(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
