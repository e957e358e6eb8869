// Package mpi makes an unmodified image's own `mpirun` reach all hosts of a
// run. It is pure: environment variables, host files and checks; it starts
// nothing and knows nothing of nodes.
package mpi

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Host is a host as the MPI sees it.
type Host struct {
	Name  string
	IP    string
	Slots int
}

// Job is what the MPI has to know.
type Job struct {
	Hosts []Host
	// RunDir is the run directory inside the container, Agent the launch agent.
	RunDir, Agent string
	// Network is the CIDR over which the hosts reach each other, or "".
	Network string
	// Root tells that ranks run as uid 0, which Open MPI refuses unless told.
	Root bool
}

// Names of the two host files: Open MPI's form, and that of the Hydra family
// (MPICH, Intel MPI).
const (
	ompiFile  = "hosts.ompi"
	hydraFile = "hosts.hydra"
)

// HostFile is the path, inside, of the host file that people can use:
// `host slots=N`.
func HostFile(j Job) string { return filepath.Join(j.RunDir, ompiFile) }

// WriteHostFiles writes the host files into the run directory as the host
// sees it.
func WriteHostFiles(dir string, j Job) error {
	var ompi, hydra strings.Builder
	for _, h := range j.Hosts {
		fmt.Fprintf(&ompi, "%s slots=%d\n", h.Name, h.Slots)
		fmt.Fprintf(&hydra, "%s:%d\n", h.Name, h.Slots)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, ompiFile), []byte(ompi.String()), 0o600),
		os.WriteFile(filepath.Join(dir, hydraFile), []byte(hydra.String()), 0o600))
}

// Environment is the union of what all MPI families need.
func Environment(j Job) []string {
	ompi, hydra := filepath.Join(j.RunDir, ompiFile), filepath.Join(j.RunDir, hydraFile)
	env := []string{
		"OMPI_MCA_orte_default_hostfile=" + ompi, "OMPI_MCA_plm_rsh_agent=" + j.Agent,
		"PRTE_MCA_prte_default_hostfile=" + ompi, "PRTE_MCA_plm_ssh_agent=" + j.Agent,
		"HYDRA_HOST_FILE=" + hydra, "HYDRA_LAUNCHER=ssh", "HYDRA_LAUNCHER_EXEC=" + j.Agent,
		"I_MPI_HYDRA_HOST_FILE=" + hydra, "I_MPI_HYDRA_BOOTSTRAP=ssh", "I_MPI_HYDRA_BOOTSTRAP_EXEC=" + j.Agent,
	}
	if j.Network != "" {
		env = append(env, "OMPI_MCA_btl_tcp_if_include="+j.Network, "OMPI_MCA_oob_tcp_if_include="+j.Network, "PRTE_MCA_prte_if_include="+j.Network)
	}
	if j.Root {
		env = append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	}
	return env
}

// CheckInput is what Check looks at.
type CheckInput struct {
	Root              string
	Argv, Env         []string
	Hosts             int
	Volume, VolumeDir string
	Workdir           string
}

// Check tells what cannot work.
func Check(CheckInput) (warnings []string, err error) { return nil, nil }
