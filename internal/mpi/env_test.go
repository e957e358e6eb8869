package mpi

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func testJob(hosts ...Host) Job {
	return Job{Hosts: hosts, RunDir: "/.bee/run", Agent: "/.bee/rsh", Network: "10.0.0.0/24"}
}

func TestHostFiles(t *testing.T) {
	dir := t.TempDir()
	if err := WriteHostFiles(dir, testJob(Host{Name: "a", Slots: 2}, Host{Name: "b", Slots: 1})); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"hosts.ompi": "a slots=2\nb slots=1\n", "hosts.hydra": "a:2\nb:1\n", "hosts": "a\na\nb\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, want %q (%v)", file, got, want, err)
		}
	}
}

func TestEnvironmentServesAllFamilies(t *testing.T) {
	env := Environment(testJob(Host{Name: "a", Slots: 2, CPUs: 2, Machine: "m"}))
	for _, want := range []string{
		"OMPI_MCA_plm_rsh_agent=/.bee/rsh", "PRTE_MCA_plm_ssh_agent=/.bee/rsh",
		"HYDRA_LAUNCHER_EXEC=/.bee/rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC=/.bee/rsh",
		"OMPI_MCA_orte_default_hostfile=/.bee/run/hosts.ompi", "PRTE_MCA_prte_default_hostfile=/.bee/run/hosts.ompi",
		"HYDRA_HOST_FILE=/.bee/run/hosts.hydra", "I_MPI_HYDRA_HOST_FILE=/.bee/run/hosts.hydra",
		"OMPI_MCA_btl_tcp_if_include=10.0.0.0/24", "I_MPI_PERHOST=2", "PMIX_MCA_gds=hash",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s", want)
		}
	}
	all := strings.Join(env, "\n")
	// The first makes the launch of many hosts slow, the second makes Open
	// MPI 5 warn on stderr, the rest are for other jobs than this.
	for _, never := range []string{"no_tree_spawn", "PRTE_MCA_oob_tcp", "RUN_AS_ROOT", "binding_policy", "yield", "FI_TCP_IFACE", "UCX_NET_DEVICES"} {
		if strings.Contains(all, never) {
			t.Errorf("%s is set:\n%s", never, all)
		}
	}
	if env := Environment(testJob(Host{Name: "a", Slots: 2}, Host{Name: "b", Slots: 64})); slices.Contains(env, "PMIX_MCA_gds=hash") {
		t.Error("many ranks get no store in shared memory")
	}
	j := testJob(Host{Name: "a", Slots: 1})
	j.Root, j.Interface = true, "eth0"
	all = strings.Join(Environment(j), "\n")
	for _, want := range []string{"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1", "FI_TCP_IFACE=eth0"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(all, "UCX_NET_DEVICES") {
		t.Error("UCX is kept from InfiniBand")
	}
	j.Guests = true
	if !slices.Contains(Environment(j), "UCX_NET_DEVICES=eth0") {
		t.Error("UCX would try the interface of guests that leads to no other")
	}
}

func TestRanksAreNotBoundWhereHostsShareProcessors(t *testing.T) {
	for _, c := range []struct {
		name        string
		hosts       []Host
		bind, yield bool
		limited     bool
	}{
		{"own machines", []Host{{Name: "a", Slots: 2, CPUs: 2, Machine: "m"}, {Name: "b", Slots: 2, CPUs: 2, Machine: "n"}}, true, false, false},
		{"one machine, enough processors", []Host{{Name: "a", Slots: 1, CPUs: 2, Machine: "m"}, {Name: "b", Slots: 1, CPUs: 2, Machine: "m"}}, false, false, false},
		{"one machine, too few", []Host{{Name: "a", Slots: 2, CPUs: 2, Machine: "m"}, {Name: "b", Slots: 2, CPUs: 2, Machine: "m"}}, false, true, false},
		{"more slots than processors", []Host{{Name: "a", Slots: 4, CPUs: 2, Machine: "m"}}, false, true, false},
		{"nothing known", []Host{{Name: "a", Slots: 4}, {Name: "b", Slots: 4}}, true, false, false},
		{"fewer cores than the machine has", []Host{{Name: "a", Slots: 1, CPUs: 1, Machine: "m"}}, false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := testJob(c.hosts...)
			job.Limited = c.limited
			all := strings.Join(Environment(job), "\n")
			if got := !strings.Contains(all, "binding_policy=none"); got != c.bind {
				t.Errorf("ranks bound: %v", got)
			}
			if got := strings.Contains(all, "yield_when_idle=1"); got != c.yield {
				t.Errorf("ranks yield: %v", got)
			}
			if got := TimerSlack(testJob(c.hosts...)) > 0; got != c.yield {
				t.Errorf("timers may be late: %v", got)
			}
			if got, shared := strings.Contains(all, "HWLOC_COMPONENTS="), strings.HasPrefix(c.name, "one machine"); got != shared {
				t.Errorf("devices are not looked for: %v", got)
			} else if got := strings.Contains(all, "HWLOC_PLUGINS_PATH=/.bee/run"); got != shared {
				t.Errorf("plugins that look for devices are not loaded: %v", got)
			}
		})
	}
}
