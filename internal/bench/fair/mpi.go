package fair

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// CMA is what may prevent cross memory attach (process_vm_readv(2)), by which MPI copies a message
// once instead of twice.
type CMA string

// The findings, in the order of their weight.
const (
	CMAOpen       CMA = "open"       // nothing does
	CMARestricted CMA = "restricted" // a security module limits which processes trace others
	CMAFiltered   CMA = "filtered"   // a filter of system calls, which may have it
	CMAOff        CMA = "off"        // a setting of MPI
)

// mostSetting bounds the value of a variable that is kept.
const mostSetting = 128

// settings are variables that choose how MPI sends messages. Those that name interfaces differ from
// host to host for good reasons.
var settings = []string{ // a table
	"OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_mtl", singleCopy, "OMPI_MCA_btl_sm_single_copy_mechanism", "OMPI_MCA_smsc",
	"UCX_TLS", "FI_PROVIDER", "I_MPI_FABRICS", "MPICH_CH4_NETMOD", "MPIR_CVAR_CH4_NETMOD", "MPIR_CVAR_NOLOCAL",
}

const singleCopy = "OMPI_MCA_btl_vader_single_copy_mechanism"

// isMPI reports whether a file is an MPI library.
func isMPI(file string) bool { return strings.HasPrefix(path.Base(file), "libmpi") }

// noteMPI remembers how an MPI process may send messages.
func (w *Watch) noteMPI(pid string, environ []string) {
	status := head(w.own + "/" + pid + "/status")
	found := cma(status, head(w.own+"/sys/kernel/yama/ptrace_scope"))
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if !slices.Contains(settings, name) || len(value) > mostSetting {
			continue
		}
		if w.found.Settings == nil {
			w.found.Settings = map[string]string{}
		}
		w.found.Settings[name] = value
		if name == singleCopy && value == "none" {
			found = CMAOff
		}
	}
	order := []CMA{"", CMAOpen, CMARestricted, CMAFiltered, CMAOff}
	if slices.Index(order, found) > slices.Index(order, w.found.CMA) {
		w.found.CMA = found
	}
}

// capPtrace is the number of CAP_SYS_PTRACE (capabilities(7)).
const capPtrace = 19

// cma is what may prevent it, by the status of a process and by the scope of Yama.
func cma(status, scope string) CMA {
	field := func(name string) string {
		_, rest, _ := strings.Cut(status, "\n"+name+":")
		line, _, _ := strings.Cut(rest, "\n")
		return strings.TrimSpace(line)
	}
	held, _ := strconv.ParseUint(field("CapEff"), 16, 64) // 0: none
	n, _ := strconv.Atoi(strings.TrimSpace(scope))        // 0: there is no Yama
	switch {
	case field("Seccomp") == "2":
		return CMAFiltered
	case n > 2, n > 0 && held&(1<<capPtrace) == 0:
		return CMARestricted
	}
	return CMAOpen
}

// Join adds what was seen on other hosts, without what is the same on this one.
func (f *Found) Join(others []Found) {
	for i := range others {
		o := &others[i]
		for file, identity := range o.Files {
			if sum := o.Programs[file]; f.Files[file] == identity && f.Programs[file] == sum {
				delete(o.Files, file)
				delete(o.Programs, file)
			}
		}
	}
	f.Others = others
}
