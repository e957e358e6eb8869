package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// TestHostOf reads a machine as its kernel shows it.
func TestHostOf(t *testing.T) {
	dir := t.TempDir()
	for file, text := range map[string]string{
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
		"sys/devices/system/cpu/intel_pstate/no_turbo":         "0\n",
		"sys/devices/system/cpu/smt/control":                   "on\n",
		"sys/devices/system/cpu/vulnerabilities/meltdown":      "Mitigation: PTI\n",
		"sys/devices/system/node/online":                       "0-1\n",
		"sys/kernel/mm/transparent_hugepage/enabled":           "always [madvise] never\n",
		"proc/cpuinfo":                   "processor : 0\nmicrocode\t: 0x2b\n",
		"proc/sys/kernel/random/boot_id": "b00t\n",
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := hostOf(record.Machine{Host: "h"}, filepath.Join(dir, "sys"), filepath.Join(dir, "proc"))
	if len(h.Governors) != 1 || h.Turbo != "on" || h.SMT != "on" || h.NUMA != "0-1" || h.HugePages != "madvise" || h.Microcode != "0x2b" || h.Boot != "b00t" || h.Mitigations["meltdown"] == "" {
		t.Errorf("got %+v", h)
	}
	if hints := strings.Join(Hints(h), "; "); !strings.Contains(hints, "powersave") || !strings.Contains(hints, "turbo") {
		t.Errorf("hints: %s", hints)
	}
	if none := hostOf(record.Machine{}, dir, dir); len(Hints(none)) > 0 || none.Turbo != "" {
		t.Errorf("nothing is known, and got %+v", none)
	}
}
