package measure

import (
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"golang.org/x/sys/unix"
)

// ticks is how many of the ticks of /proc/stat are a second (proc_stat(5)).
const ticks = 100

// A usage is what the processors of this machine have done since its boot, in seconds, and how long
// processes waited.
type usage struct {
	all, busy, steal float64
	bee, awaited     time.Duration // of bee itself, and of processes that it has awaited
	waited           time.Duration // for a processor
	reclaimed        time.Duration // for memory
	at               time.Time
}

func usageNow() usage {
	u := usageOf("/proc")
	u.at = time.Now()
	for who, to := range map[int]*time.Duration{unix.RUSAGE_SELF: &u.bee, unix.RUSAGE_CHILDREN: &u.awaited} {
		var r unix.Rusage
		if unix.Getrusage(who, &r) == nil {
			*to = time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	return u
}

// usageOf reads the kernel's files below proc. What cannot be read is 0.
func usageOf(proc string) (u usage) {
	text, _ := os.ReadFile(proc + "/stat") //nolint:forbidigo // a file of the kernel; not known is 0
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil || i > 8 { // guests' time is in user's already
			continue
		}
		u.all += v / ticks
		switch i {
		case 4, 5: // idle, and waiting for a disk
		case 8:
			u.steal = v / ticks
		default:
			u.busy += v / ticks
		}
	}
	u.waited, u.reclaimed = stalled(word(proc+"/pressure/cpu")), stalled(word(proc+"/pressure/memory"))
	return u
}

// stalled is for how long some process has waited since the boot, by pressure stall information.
func stalled(text string) time.Duration {
	line, _, _ := strings.Cut(text, "\n")
	_, total, _ := strings.Cut(line, "total=")
	us, err := strconv.ParseInt(strings.TrimSpace(total), 10, 64)
	if err != nil || !strings.HasPrefix(line, "some ") {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// starting is the time of a processor that a runtime's own processes, such as a daemon, may take for
// a container. They belong to no run.
const starting = time.Second

// during notes what happened on this machine while a run computed, which took processor time; 0: not
// known. That of a guest is not the time of its hypervisor.
func during(row *record.Row, before, after usage, took time.Duration, guest bool) {
	if after.all > before.all {
		row.Steal = (after.steal - before.steal) / (after.all - before.all)
	}
	elapsed := after.at.Sub(before.at)
	if elapsed <= 0 {
		return
	}
	share := func(d time.Duration) float64 { return min(1, max(0, d.Seconds()/elapsed.Seconds())) }
	row.Waited, row.Reclaimed = share(after.waited-before.waited), share(after.reclaimed-before.reclaimed)
	if took <= 0 || guest {
		return
	}
	ours := max(took, after.awaited-before.awaited) + after.bee - before.bee // what bee awaits may have run it
	others := after.busy - before.busy - ours.Seconds() - starting.Seconds()
	row.OthersDuring = math.Max(0, others/elapsed.Seconds())
}
