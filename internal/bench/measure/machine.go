package measure

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// yardstick is the time of a fixed piece of arithmetic and memory accesses: about 50 ms.
// Its drift shows whether the machine itself changes.
func yardstick() time.Duration {
	begin := time.Now()
	x, sum := 1.0, uint64(0)
	for i := range 4_000_000 {
		x = math.FMA(x, 0.999999, float64(i&7)*1e-9)
	}
	memory := make([]uint64, 1<<21) // 16 MiB
	for range 2 {
		for i := 0; i < len(memory); i += 8 {
			memory[i] += uint64(i)
			sum += memory[i]
		}
	}
	runtime.KeepAlive(x)
	runtime.KeepAlive(sum)
	return time.Since(begin)
}

// load is the load average of the last minute; 0 where it cannot be read.
func load() float64 {
	text, _ := os.ReadFile("/proc/loadavg") //nolint:forbidigo // a file of the kernel; not known is 0
	first, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

// A processorTime is what /proc/stat has of all processors, in ticks (proc_stat(5)).
type processorTime struct{ all, steal float64 }

func processorTimes() processorTime {
	text, _ := os.ReadFile("/proc/stat") //nolint:forbidigo // a file of the kernel; not known is 0
	line, _, _ := strings.Cut(string(text), "\n")
	var t processorTime
	for i, word := range strings.Fields(line) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || i > 8 { // guests' time is in user's already
			continue
		}
		t.all += v
		if i == 8 {
			t.steal = v
		}
	}
	return t
}

func stolen(before, after processorTime) float64 {
	if after.all <= before.all {
		return 0
	}
	return (after.steal - before.steal) / (after.all - before.all)
}

// Shares and loads above which a measurement is flagged.
const (
	muchSteal = 0.02
	muchLoad  = 0.5 // for each core, before the measurement begins
	// muchPressure is a percentage of time.
	muchPressure = 5
)

// Quiet reports whether other processes leave the processors of this machine alone: by the
// time in which some process waited for one (pressure stall information), else by the load.
func Quiet() bool {
	text, err := os.ReadFile("/proc/pressure/cpu") //nolint:forbidigo // a file of the kernel
	if err != nil {
		return load() <= muchLoad*float64(runtime.NumCPU())
	}
	_, rest, _ := strings.Cut(string(text), "some avg10=")
	word, _, _ := strings.Cut(rest, " ")
	share, err := strconv.ParseFloat(word, 64)
	return err != nil || share < muchPressure
}

func disturbances(r *record.Row) []string {
	var flags []string
	if r.Steal > muchSteal {
		flags = append(flags, "a hypervisor withheld processor time")
	}
	if r.Load > muchLoad*float64(runtime.NumCPU()) {
		flags = append(flags, "other processes were busy before the measurement began")
	}
	return flags
}

// Here describes this machine.
func Here(bee string) record.Machine {
	m := record.Machine{Bee: bee, Cores: runtime.NumCPU(), MemoryBytes: core.HostMemory()}
	m.Host, _ = os.Hostname()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	text, _ := os.ReadFile("/proc/cpuinfo") //nolint:forbidigo // a file of the kernel
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	m.CacheBytes = lastLevelCache()
	return m
}

// lastLevelCache is the size of the last cache of processor 0, in bytes.
func lastLevelCache() (size int64) {
	for i := range 8 {
		text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu0/cache/index%d/size", i)) //nolint:forbidigo // a file of the kernel
		if err != nil {
			break
		}
		if k, ok := strings.CutSuffix(strings.TrimSpace(string(text)), "K"); ok {
			if n, err := strconv.ParseInt(k, 10, 64); err == nil {
				size = max(size, n<<10)
			}
		}
	}
	return size
}
