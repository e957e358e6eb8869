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
	// CPUs is the number of processors that the host's ranks may use, and
	// Machine reports which hosts share them (emulated hosts of one machine);
	// 0 and "" when unknown.
	CPUs    int
	Machine string
}

// Names of the host files. The last is for people: each host's name once per
// slot, one a line, which Open MPI's `--hostfile` and Hydra's `-f` both read.
const (
	ompiFile   = "hosts.ompi"
	hydraFile  = "hosts.hydra"
	peopleFile = "hosts"
)

// HostFile is the path, inside, of the host file that people can use with any
// mpirun: each host's name once per slot.
func HostFile(j Job) string { return filepath.Join(j.RunDir, peopleFile) }

// WriteHostFiles writes the host files into the run directory as the host
// sees it.
func WriteHostFiles(dir string, j Job) error {
	var ompi, hydra, people strings.Builder
	for _, h := range j.Hosts {
		fmt.Fprintf(&ompi, "%s slots=%d\n", h.Name, h.Slots)
		fmt.Fprintf(&hydra, "%s:%d\n", h.Name, h.Slots)
		people.WriteString(strings.Repeat(h.Name+"\n", h.Slots))
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, ompiFile), []byte(ompi.String()), 0o600),
		os.WriteFile(filepath.Join(dir, hydraFile), []byte(hydra.String()), 0o600),
		os.WriteFile(filepath.Join(dir, peopleFile), []byte(people.String()), 0o600))
}

// fewestSlots is what every host can take.
func fewestSlots(hosts []Host) int {
	fewest := 0
	for _, h := range hosts {
		if fewest == 0 || h.Slots < fewest {
			fewest = h.Slots
		}
	}
	return fewest
}

// crowding reports whether several hosts share one machine, so that each MPI
// daemon would bind its ranks to the same first cores, and whether there are
// more slots than processors, so that a rank that spins takes another's time.
func crowding(hosts []Host) (shared, over bool) {
	slots, count := map[string]int{}, map[string]int{}
	for i, h := range hosts {
		key := h.Machine
		if key == "" {
			key = fmt.Sprint("#", i)
		}
		slots[key] += h.Slots
		count[key]++
		shared = shared || count[key] > 1
		over = over || h.CPUs > 0 && slots[key] > h.CPUs
	}
	return shared, over
}
