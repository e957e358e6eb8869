package drivertest

import (
	"slices"
	"strings"
	"testing"
)

// Stray are variables that an account's shells, modules and jobs may have set, KEY=VALUE,
// and that no agent on a site, nor a node of its, must have.
func Stray() []string {
	return []string{
		"GODEBUG=gctrace=0", "GOMAXPROCS=1", "GOGC=50", "PERL5LIB=/nonexistent/perl", "BASH_ENV=/nonexistent/env", "ENV=/nonexistent/env", "CDPATH=/nonexistent",
		"PYTHONPATH=/nonexistent/python", "OMP_NUM_THREADS=1", "PMI_RANK=3", "OMPI_COMM_WORLD_RANK=3", "POSIXLY_CORRECT=1", "GREP_OPTIONS=-v",
		"SQUEUE_FORMAT=%u", "SBATCH_TIMELIMIT=0:01", "SCANCEL_STATE=PENDING", "APPTAINER_BIND=/nonexistent", "BEE_LEASE=/nonexistent/lease", "BEE_STATE=/nonexistent/state",
	}
}

// checkEnvironment looks at the environment of a node that an agent has launched.
func (s ProviderSuite) checkEnvironment(t *testing.T, host int, env []string) {
	t.Helper()
	if !s.Agents {
		return
	}
	for _, name := range []string{"PATH", "HOME", "USER"} {
		if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, name+"=") && len(e) > len(name)+1 }) {
			t.Errorf("host %d: no %s in %q", host, name, env)
		}
	}
	for _, stray := range Stray() {
		if name, _, _ := strings.Cut(stray, "="); slices.Contains(env, stray) {
			t.Errorf("host %d: the node has %s, which the account happens to set", host, name)
		}
	}
}
