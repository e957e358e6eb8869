// Package mpi makes an unmodified image's own `mpirun` reach all hosts of a
// run: environment variables, host files, and checks of the image before the
// launch. It starts nothing and knows nothing of nodes; the launch agent that
// mpirun calls is package rsh.
package mpi

import (
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Job is what the MPI has to know.
type Job struct {
	Hosts []Host
	// RunDir is the run directory inside the container, Agent the launch agent.
	RunDir, Agent string
	// Network is the CIDR, or several with commas, over which the hosts reach
	// each other, or "".
	Network string
	// Interface is the name of that network's interface where it is the same
	// on all hosts, else "".
	Interface string
	// Guests means that the hosts are virtual machines, whose only other interface
	// leads to no other host.
	Guests bool
	// Limited means that ranks keep to some of their host's cores, of which MPI does not know.
	Limited bool
	// Root means that ranks run as uid 0, which Open MPI refuses unless asked.
	Root bool
}

// fewRanks on a host need no store in shared memory.
const fewRanks = 2

// Environment is the union of what all MPI families need: which of them the
// image has need not be known. Variables of another family do no harm, with
// one exception that is left out: PRTE_MCA_oob_tcp_if_include makes Open MPI 5
// warn on stderr.
//
// Open MPI's no_tree_spawn is never set: without a tree, mpirun starts one
// agent per host at once, and 64 hosts become slow.
func Environment(j Job) []string {
	ompi, hydra := filepath.Join(j.RunDir, ompiFile), filepath.Join(j.RunDir, hydraFile)
	env := []string{
		// Open MPI up to 4 (orte), and from 5 on (prte).
		"OMPI_MCA_orte_default_hostfile=" + ompi, "OMPI_MCA_plm_rsh_agent=" + j.Agent,
		"PRTE_MCA_prte_default_hostfile=" + ompi, "PRTE_MCA_plm_ssh_agent=" + j.Agent,
		// MPICH and its relatives; Intel MPI.
		"HYDRA_HOST_FILE=" + hydra, "HYDRA_LAUNCHER=ssh", "HYDRA_LAUNCHER_EXEC=" + j.Agent,
		"I_MPI_HYDRA_HOST_FILE=" + hydra, "I_MPI_HYDRA_BOOTSTRAP=ssh", "I_MPI_HYDRA_BOOTSTRAP_EXEC=" + j.Agent,
		// Open MPI up to 4 complains about devices, such as the kernel's software one, for
		// which its openib has no parameters.
		"OMPI_MCA_btl_openib_warn_no_device_params_found=0",
		// PMIx: an image with a munge library but no munged must not try it,
		// and a missing zlib is no one's concern on stderr.
		"PMIX_MCA_psec=native", "PMIX_MCA_pcompress_base_silence_warning=1",
	}
	if j.Network != "" {
		env = append(env, "OMPI_MCA_btl_tcp_if_include="+j.Network, "OMPI_MCA_oob_tcp_if_include="+j.Network, "PRTE_MCA_prte_if_include="+j.Network)
	}
	if j.Interface != "" {
		// libfabric, which carries MPICH and Intel MPI, takes a name only. It
		// concerns its TCP provider alone, so that InfiniBand stays usable.
		env = append(env, "FI_TCP_IFACE="+j.Interface)
		if j.Guests {
			// UCX, which carries MPICH, tries every interface that hosts seem to share,
			// and guests all have the same address on the side of their own host. On
			// other hosts this would take InfiniBand away from it.
			env = append(env, "UCX_NET_DEVICES="+j.Interface)
		}
	}
	if j.Root {
		env = append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	}
	if n := fewestSlots(j.Hosts); n > 0 {
		// Intel MPI reads no more than names from its host file.
		env = append(env, "I_MPI_PERHOST="+strconv.Itoa(n))
	}
	if !slices.ContainsFunc(j.Hosts, func(h Host) bool { return h.Slots > fewRanks || h.Slots == 0 }) {
		// PMIx's store in shared memory is for many readers on a host. For few,
		// filling its segments is a sixth of the time that a launch takes.
		env = append(env, "PMIX_MCA_gds=hash")
	}
	shared, over := crowding(j.Hosts)
	if shared || over || j.Limited {
		env = append(env, "OMPI_MCA_hwloc_base_binding_policy=none", "PRTE_MCA_hwloc_default_binding_policy=none", "I_MPI_PIN=off")
	}
	if shared {
		// Which device is close to which core does not matter on emulated hosts, and
		// looking for all of them is half of what an MPI daemon computes as it starts.
		// Nor do the plugins that look matter (there are none in the run directory): each
		// daemon and rank would load them, with all of X11, OpenCL, and an XML library
		// that hwloc has its own for.
		env = append(env, "HWLOC_COMPONENTS=-pci,-linuxio,-opencl,-gl", "HWLOC_PLUGINS_PATH="+j.RunDir)
	}
	if over {
		env = append(env, "OMPI_MCA_mpi_yield_when_idle=1", "I_MPI_THREAD_YIELD=2")
	}
	return env
}

// TimerSlack is how late the timers of the job's processes may be (prctl(2),
// PR_SET_TIMERSLACK), or 0 for what the system does. Ranks of Open MPI 4 look every
// 100 µs whether all have come, and where they share processors, what they do so
// often is what keeps the others from coming.
func TimerSlack(j Job) time.Duration {
	if _, over := crowding(j.Hosts); over {
		return 2 * time.Millisecond
	}
	return 0
}
