package rsh

import "strings"

// carried chooses what of the agent's environment goes along: what the user's
// script exported before mpirun, as under a batch system. It is laid over the
// container's own environment there. What distinguishes one node or one MPI process
// from another stays here; each launcher passes its own settings on itself.
func carried(environ []string) []string {
	var list []string
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if !local(name) {
			list = append(list, e)
		}
	}
	return list
}

func local(name string) bool {
	switch name {
	case "BEE_NODE_RANK", "BEE_RANKS_PER_NODE", "BEE_NODE_SOCKET", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_", "HYDI_CONTROL_FD":
		return true
	}
	for _, prefix := range []string{"OMPI_", "PRTE_", "PMIX_", "PMI_", "SLURM_", "PBS_", "HYDRA_", "I_MPI_HYDRA_", "MPIR_", "MPIEXEC_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
