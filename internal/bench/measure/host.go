package measure

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// HostHere describes this machine as its kernel does.
func HostHere(m record.Machine) record.Host {
	return hostOf(m, "/sys", "/proc")
}

func hostOf(m record.Machine, sys, proc string) record.Host {
	h := record.Host{
		Name: m.Host, Kernel: m.Kernel, CPU: m.CPU, Cores: m.Cores, Boot: word(proc + "/sys/kernel/random/boot_id"),
		SMT: word(sys + "/devices/system/cpu/smt/control"), NUMA: word(sys + "/devices/system/node/online"), Turbo: turbo(sys), Isolated: isolated(sys),
		HugePages: chosen(word(sys + "/kernel/mm/transparent_hugepage/enabled")), Cgroup: word(proc + "/self/cgroup"),
	}
	governors, _ := filepath.Glob(sys + "/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") //nolint:forbidigo // the kernel's; the pattern is a good one
	for _, file := range governors {
		if g := word(file); g != "" && !slices.Contains(h.Governors, g) {
			h.Governors = append(h.Governors, g)
		}
	}
	slices.Sort(h.Governors)
	for line := range strings.Lines(word(proc + "/cpuinfo")) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "microcode" {
			h.Microcode = strings.TrimSpace(value)
			break
		}
	}
	dir := sys + "/devices/system/cpu/vulnerabilities"
	entries, _ := os.ReadDir(dir) //nolint:forbidigo // a directory of the kernel; without it, they are not known
	for _, e := range entries {
		if text := word(filepath.Join(dir, e.Name())); text != "" {
			if h.Mitigations == nil {
				h.Mitigations = map[string]string{}
			}
			h.Mitigations[e.Name()] = text
		}
	}
	return h
}

// turbo is whether processors may be faster than their frequency.
func turbo(sys string) string {
	if v := word(sys + "/devices/system/cpu/cpufreq/boost"); v != "" {
		return map[string]string{"0": "off", "1": "on"}[v]
	}
	return map[string]string{"1": "off", "0": "on"}[word(sys+"/devices/system/cpu/intel_pstate/no_turbo")]
}

// isolated names the cores that the kernel gives no other processes; "none": there are none.
func isolated(sys string) string {
	file := sys + "/devices/system/cpu/isolated"
	if _, err := os.Stat(file); err != nil { //nolint:forbidigo // a file of the kernel; "" is not known
		return ""
	}
	return cmp.Or(word(file), "none")
}

// chosen is the word in brackets, as of [always] madvise never.
func chosen(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	v, _, _ := strings.Cut(rest, "]")
	return v
}

// word is a file of the kernel without white space around it; "": it cannot be read.
func word(file string) string {
	text, _ := os.ReadFile(file) //nolint:forbidigo // a file of the kernel; "" is not known
	return strings.TrimSpace(string(text))
}

// Hints name settings of a machine that would make figures steadier. Bee changes none.
func Hints(h record.Host) []string {
	var all []string
	if len(h.Governors) > 0 && !slices.Equal(h.Governors, []string{"performance"}) {
		all = append(all, "the governor of the processors is "+strings.Join(h.Governors, ", ")+": with `performance`, figures vary less")
	}
	if h.Turbo == "on" {
		all = append(all, "processors may exceed their frequency: without turbo, figures vary less")
	}
	if h.SMT == "on" {
		all = append(all, "two threads of a core share its caches: without SMT (`nosmt`), figures vary less")
	}
	if h.Isolated == "none" {
		all = append(all, "no core is kept from other processes: with `isolcpus`, figures vary less")
	}
	return all
}
