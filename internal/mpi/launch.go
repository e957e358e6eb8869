package mpi

import (
	"path"
	"strings"
)

// isLauncher reports whether a command's name is that of an MPI launcher.
func isLauncher(name string) bool {
	base := path.Base(name)
	for _, suffix := range []string{".openmpi", ".mpich", ".hydra"} {
		base = strings.TrimSuffix(base, suffix)
	}
	switch base {
	case "mpirun", "mpiexec", "orterun", "prterun":
		return true
	}
	return false
}

// arity gives the number of values after a launcher's option; known is false
// for an option that is not in the list, after which nothing is sure.
func arity(option string) (values int, known bool) {
	if strings.Contains(option, "=") {
		return 0, true
	}
	switch strings.TrimLeft(option, "-") {
	case "mca", "gmca", "prtemca", "pmixmca", "omca", "genv", "env":
		return 2, true
	case "np", "n", "c", "N", "H", "host", "hosts", "hostfile", "machinefile", "machine", "f", "ppn", "perhost", "grr", "rr",
		"wdir", "wd", "x", "am", "map-by", "bind-to", "rank-by", "npernode", "npersocket", "iface", "genvlist", "envlist",
		"prefix", "path", "timeout", "launcher", "launcher-exec", "bootstrap", "bootstrap-exec", "rmk", "output-filename",
		"output", "outfile-pattern", "errfile-pattern", "launch-agent", "rf", "rankfile", "cpu-set", "cpu-list", "slot-list",
		"stdin", "s", "personality", "display", "tune", "runtime-options", "pmi-port", "usize":
		return 1, true
	case "oversubscribe", "nooversubscribe", "allow-run-as-root", "v", "verbose", "q", "quiet", "l", "prepend-rank", "tag-output",
		"timestamp-output", "display-map", "display-allocation", "display-devel-map", "report-bindings", "genvall", "genvnone",
		"envall", "envnone", "use-hwthread-cpus", "bynode", "byslot", "bycore", "bind-to-core", "bind-to-none", "nolocal",
		"print-rank-map", "print-all-exitcodes", "d", "debug-daemons", "leave-session-attached", "merge-stderr-to-stdout",
		"enable-recovery", "disable-auto-cleanup", "no-ssh-tree-spawn", "forward-signals":
		return 0, true
	}
	return 0, false
}

// launched gives the words of the first program that a launcher's words start.
func launched(words []string) (program []string, known bool) {
	for n := 1; n < len(words); {
		w := words[n]
		if w == "--" {
			n++
		} else if strings.HasPrefix(w, "-") {
			values, known := arity(w)
			if !known {
				return nil, false
			}
			n += 1 + values
			continue
		}
		rest := words[n:]
		for k, w := range rest {
			if w == ":" {
				rest = rest[:k]
				break
			}
		}
		rest, sets := withoutPrefix(rest)
		return rest, !sets && len(rest) > 0
	}
	return nil, false
}
