package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/testkit"
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
		"sys/devices/system/cpu/isolated":                      "\n",
		"sys/devices/system/node/online":                       "0-1\n",
		"sys/kernel/mm/transparent_hugepage/enabled":           "always [madvise] never\n",
		"proc/cpuinfo":                   "processor : 0\nmicrocode\t: 0x2b\ncpu MHz\t\t: 2000.5\n\nprocessor : 1\ncpu MHz\t\t: 3000.5\n",
		"proc/loadavg":                   "2.00 1.00 0.50 7/123 4567\n",
		"proc/meminfo":                   "MemTotal:  100 kB\nCached:  12 kB\nSwapCached: 7 kB\n",
		"proc/pressure/cpu":              "some avg10=12.50 avg60=1.00 avg300=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
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
	if waits, cached, mhz := conditions(filepath.Join(dir, "proc")); waits != 0.125 || cached != 12<<10 || mhz != 2500.5 {
		t.Errorf("pressure %v, page cache %v, %v MHz", waits, cached, mhz)
	}
	if n := runnable(filepath.Join(dir, "proc")); n != 7 {
		t.Errorf("%v processes run, expected 7", n)
	}
	if flags := disturbances(&record.Row{Load: 100, OthersDuring: 0.5, Waited: 0.2, Reclaimed: 0.01}, 2); len(flags) > 0 {
		t.Errorf("the load of the measurement before is flagged: %q", flags)
	}
	for name, row := range map[string]record.Row{"before": {Others: 1.1}, "others": {OthersDuring: 0.6}, "waits": {Waited: 0.3}, "memory": {Reclaimed: 0.1}, "steal": {Steal: 0.1}} {
		flags := disturbances(&row, 2)
		if len(flags) != 1 {
			t.Errorf("%s: %q", name, flags)
		}
		testkit.Wording(t, name, strings.Join(flags, "\n"))
	}
	if waits, cached, mhz := conditions(dir); waits != 0 || cached != 0 || mhz != 0 {
		t.Errorf("nothing is known, and got %v, %v, %v", waits, cached, mhz)
	}
	hints := strings.Join(Hints(h), "; ")
	for _, about := range []string{"powersave", "turbo", "nosmt", "isolcpus"} {
		if !strings.Contains(hints, about) {
			t.Errorf("no hint about %s: %s", about, hints)
		}
	}
	if none := hostOf(record.Machine{}, dir, dir); len(Hints(none)) > 0 || none.Turbo != "" {
		t.Errorf("nothing is known, and got %+v", none)
	}
}
