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
// Its drift shows whether the machine itself changes. Others is the mean number of other
// processes that ran, or waited for a processor, meanwhile: the load would count those of the
// measurement before.
func yardstick() (took time.Duration, others float64) {
	stop, mean := make(chan struct{}), make(chan float64)
	go func() { mean <- running(stop) }()
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
	took = time.Since(begin)
	close(stop)
	return took, <-mean
}

// sampleEvery is the pause between two looks at the processes that run.
const sampleEvery = 5 * time.Millisecond

// running is the mean number of processes that run until stop is closed, without the two of
// this one: that which computes, and that which looks.
func running(stop <-chan struct{}) float64 {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	sum, n := 0.0, 0.0
	for {
		select {
		case <-stop:
			return sum / max(1, n)
		case <-tick.C:
			sum, n = sum+max(0, runnable("/proc")-2), n+1
		}
	}
}

// runnable is the number of processes that run or could run now (proc_loadavg(5)).
func runnable(proc string) float64 {
	fields := strings.Fields(word(proc + "/loadavg"))
	if len(fields) < 4 {
		return 0
	}
	now, _, _ := strings.Cut(fields[3], "/")
	v, _ := strconv.ParseFloat(now, 64)
	return v
}

// load is the load average of the last minute; 0 where it cannot be read.
func load() float64 {
	text, _ := os.ReadFile("/proc/loadavg") //nolint:forbidigo // a file of the kernel; not known is 0
	first, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}

// Shares and loads above which a measurement is flagged.
const (
	muchSteal = 0.02
	muchLoad  = 0.5 // for each core, before the measurement begins
	// muchPressure is a share of time.
	muchPressure = 0.05
	// muchWaiting is that of a measurement, whose own processes may wait for each other.
	muchWaiting = 0.25
	// muchOthers is a share of the processors during a measurement.
	muchOthers = 0.25
)

// Quiet reports whether other processes leave the processors of this machine alone: by the
// time in which some process waited for one (pressure stall information), else by the load.
func Quiet() bool {
	text, err := os.ReadFile("/proc/pressure/cpu") //nolint:forbidigo // a file of the kernel
	if err != nil {
		return load() <= muchLoad*float64(runtime.NumCPU())
	}
	return pressure(string(text)) < muchPressure
}

// pressure is the share of the last ten seconds in which some process waited; 0: not known.
func pressure(text string) float64 {
	_, rest, _ := strings.Cut(text, "some avg10=")
	first, _, _ := strings.Cut(rest, " ")
	percent, _ := strconv.ParseFloat(first, 64)
	return percent / 100
}

// conditions are the pressure on processors, the page cache in bytes and the mean frequency of
// the processors in MHz, by the kernel's files below proc. 0: not known.
func conditions(proc string) (waits float64, cached int64, mhz float64) {
	waits = pressure(word(proc + "/pressure/cpu"))
	for line := range strings.Lines(word(proc + "/meminfo")) {
		if rest, is := strings.CutPrefix(line, "Cached:"); is {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			cached = kib << 10
		}
	}
	n := 0.0
	for line := range strings.Lines(word(proc + "/cpuinfo")) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "cpu MHz" {
			if v, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
				n++
				mhz += (v - mhz) / n
			}
		}
	}
	return waits, cached, mhz
}

func disturbances(r *record.Row, cores int) []string {
	var flags []string
	if r.Steal > muchSteal {
		flags = append(flags, "a hypervisor withheld processor time")
	}
	if r.Others > muchLoad*float64(cores) {
		flags = append(flags, "other processes were busy before the measurement began")
	}
	if r.OthersDuring > muchOthers*float64(cores) {
		flags = append(flags, "other processes were busy during the measurement")
	}
	if r.Waited > muchWaiting {
		flags = append(flags, "processes waited for a processor for more than a quarter of the time")
	}
	if r.Reclaimed > muchPressure {
		flags = append(flags, "processes waited for memory")
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
