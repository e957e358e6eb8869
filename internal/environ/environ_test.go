package environ

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestKnown(t *testing.T) {
	for name, keep := range map[string]bool{
		"PATH": true, "HOME": true, "TMPDIR": true, "XDG_RUNTIME_DIR": true, "DOCKER_HOST": true, "REGISTRY_AUTH_FILE": true,
		"SLURM_JOB_ID": true, "SLURMD_NODENAME": true, "https_proxy": true, "NO_PROXY": true, "BEE_CACHE": true,
		"LD_PRELOAD": false, "GODEBUG": false, "BASH_ENV": false, "PYTHONPATH": false, "OMP_NUM_THREADS": false, "LC_ALL": false, "TERM": false,
		"PMI_RANK": false, "OMPI_COMM_WORLD_RANK": false, "SSH_CONNECTION": false, "SBATCH_ACCOUNT": false, "SLURMISH": false, "APPTAINER_BIND": false,
		"APPTAINERENV_X": false, "BEE_TERM_IS_NOTICE": false, "BEE_LEASE": false, "BEE_STATE": false, "CUDA_VISIBLE_DEVICES": false,
	} {
		if got := slices.Contains(Known([]string{name + "=a=b"}), name+"=a=b"); got != keep {
			t.Errorf("%s: kept %v", name, got)
		}
	}
}

// TestWhatAnAgentAlwaysHas, also where nothing is set, or the account is in no table.
func TestWhatAnAgentAlwaysHas(t *testing.T) {
	got := Known(nil)
	if _, set := lookupIn(got)("PATH"); !set {
		t.Errorf("%q", got)
	}
	for _, e := range got {
		if _, value, _ := strings.Cut(e, "="); value == "" {
			t.Errorf("%q is empty", e)
		}
	}
	if own := Known([]string{"PATH=/mine", "HOME=/there"}); !slices.Contains(own, "PATH=/mine") || !slices.Contains(own, "HOME=/there") {
		t.Errorf("%q", own)
	}
}

func TestEnter(t *testing.T) {
	t.Setenv("SCRATCH", "/scratch/me")
	t.Setenv("SLURM_JOB_ID", "7")
	former := os.Environ()
	t.Cleanup(func() {
		for _, e := range former {
			name, value, _ := strings.Cut(e, "=")
			os.Setenv(name, value) //nolint:errcheck // it was set before
		}
	})
	lookup := Enter()
	if _, set := os.LookupEnv("SCRATCH"); set || os.Getenv("SLURM_JOB_ID") != "7" {
		t.Errorf("the environment is %q", os.Environ())
	}
	if value, set := lookup("SCRATCH"); !set || value != "/scratch/me" {
		t.Errorf("in the former one it is %q, %v", value, set)
	}
	if _, set := lookup("SCRATC"); set {
		t.Error("a part of a name is found")
	}
}
