package scaffold

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
)

// cores sets the cores of each node from a text such as 8, 0.5 or 16+.
func (d *draft) cores(option, text string) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "+"), 64)
	if err != nil || !(n > 0 && n <= 100_000) {
		d.note("%s %s: it is no number of cores", option, short(text))
		return
	}
	d.job.Cores = int(math.Ceil(n))
}

// memory sets the memory of each node. unit is that of a number without one.
func (d *draft) memory(option, text, unit string) {
	number := strings.TrimSuffix(text, "+")
	if strings.Trim(number, "0123456789.") == "" {
		number += unit
	}
	size, err := spec.ParseSize(number)
	if err != nil || size <= 0 {
		d.note("%s %s: it is no size", option, short(text))
		return
	}
	d.job.Memory = spec.Size(size)
}

// longestTime bounds the time of an attempt: more is a number of something else.
const longestTime = 1e6 * time.Minute

// timeLimit sets the time of an attempt from a time of sbatch, where a lone number counts
// minutes, and two count minutes and seconds.
func (d *draft) timeLimit(option, text string) {
	limit, is := spec.SlurmTime(text)
	if !is {
		if read, _, err := spec.ParseDuration(text); err == nil {
			limit, is = read, true
		}
	}
	if !is || limit <= 2*spec.LeastMargin || limit >= longestTime {
		d.note("%s %s: write it as `time:`, such as 30m", option, short(text))
		return
	}
	d.job.Time = limit
}
