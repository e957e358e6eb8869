package measure

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// powercap has the counters of processors (Linux, Documentation/power/powercap). Only root
// may read them.
const powercap = "/sys/class/powercap"

// A counter is the energy that a processor has used, in microjoules. It continues at 0 after most.
type counter struct{ used, most float64 }

type energy map[string]counter

// readEnergy reads the counters of whole processors. Those that cannot be read are absent.
func readEnergy(dir string) energy {
	all := energy{}
	entries, _ := os.ReadDir(dir) //nolint:forbidigo // a directory of the kernel; without it, the energy is not known
	for _, e := range entries {
		if strings.Count(e.Name(), ":") != 1 || !strings.HasPrefix(e.Name(), "intel-rapl:") { // a part of a processor
			continue
		}
		zone := filepath.Join(dir, e.Name())
		used, err := readNumber(filepath.Join(zone, "energy_uj"))
		most, err2 := readNumber(filepath.Join(zone, "max_energy_range_uj"))
		if err == nil && err2 == nil {
			all[zone] = counter{used, most}
		}
	}
	return all
}

func readNumber(file string) (float64, error) {
	text, err := os.ReadFile(file) //nolint:forbidigo // a file of the kernel
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
}

// since is the energy in joules that was used since before.
func (e energy) since(before energy) (joules float64) {
	for zone, now := range e {
		then, is := before[zone]
		if !is {
			return 0
		}
		used := now.used - then.used
		if used < 0 {
			used += now.most
		}
		joules += used / 1e6
	}
	return joules
}
