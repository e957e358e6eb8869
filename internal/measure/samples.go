package measure

import (
	"math"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

const (
	// MaxSamples bounds the samples of a run, and MaxSingle the nodes that each has one by
	// one: as JSON they are below 1 MB, whatever the numbers are.
	MaxSamples = 500
	MaxSingle  = 8
)

// Sample is what the nodes of a run have used until a time.
type Sample struct {
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	Used
}

func (s Sample) join(newer Sample) Sample {
	return Sample{Time: newer.Time, Attempt: newer.Attempt, Used: s.Join(newer.Used)}
}

func (Sample) most() int { return MaxSamples }

// Used is what nodes have used over some seconds.
type Used struct {
	Seconds float64 `json:"seconds"`
	// Nodes are those that have answered.
	Nodes int `json:"nodes"`
	// Mean, Least and Most are over these nodes.
	Mean  core.Use `json:"mean"`
	Least core.Use `json:"least"`
	Most  core.Use `json:"most"`
	// Single are the first nodes by rank, at most MaxSingle; one that did not answer is empty.
	Single []core.Use `json:"single"`
}

// Gather returns what nodes have used over some seconds, by what each has answered; the nodes
// are by rank, and empty where one has not. It is the zero Used where none has.
func Gather(seconds float64, nodes []core.Use) Used {
	u := Used{Seconds: seconds}
	var known [core.Uses]float64 // nodes that know each number
	for rank, n := range nodes {
		n = rounded(n)
		if rank < MaxSingle {
			u.Single = append(u.Single, n)
		}
		if len(n) == 0 {
			continue
		}
		u.Nodes++
		for i := range n {
			known[i]++
		}
		u.Mean = merged(u.Mean, n, func(i int, x, y float64) float64 { return x + (y-x)/known[i] })
		u.Least = merged(u.Least, n, func(_ int, x, y float64) float64 { return min(x, y) })
		u.Most = merged(u.Most, n, func(_ int, x, y float64) float64 { return max(x, y) })
	}
	if u.Nodes == 0 {
		return Used{}
	}
	u.Mean = rounded(u.Mean)
	return u
}

// Join returns what was used over both spans: averages by their lengths, and peaks.
func (u Used) Join(newer Used) Used {
	total := u.Seconds + newer.Seconds
	if total <= 0 || u.Nodes == 0 {
		return newer
	}
	average := func(i int, x, y float64) float64 {
		if core.IsPeak(i) {
			return max(x, y)
		}
		return x + (y-x)*(newer.Seconds/total)
	}
	j := Used{
		Seconds: total, Nodes: max(u.Nodes, newer.Nodes), Mean: rounded(merged(u.Mean, newer.Mean, average)),
		Least: merged(u.Least, newer.Least, func(_ int, x, y float64) float64 { return min(x, y) }),
		Most:  merged(u.Most, newer.Most, func(_ int, x, y float64) float64 { return max(x, y) }),
	}
	for rank := range min(max(len(u.Single), len(newer.Single)), MaxSingle) {
		j.Single = append(j.Single, rounded(merged(at(u.Single, rank), at(newer.Single, rank), average)))
	}
	return j
}

func at(list []core.Use, rank int) core.Use {
	if rank < len(list) {
		return list[rank]
	}
	return nil
}

// merged merges number by number. Those that only one of both has are that one's.
func merged(x, y core.Use, merge func(i int, x, y float64) float64) core.Use {
	if len(x) < len(y) {
		merged := append(core.Use(nil), y...)
		for i := range x {
			merged[i] = merge(i, x[i], y[i])
		}
		return merged
	}
	merged := append(core.Use(nil), x...)
	for i := range y {
		merged[i] = merge(i, x[i], y[i])
	}
	return merged
}

// rounded has no more digits than say something.
func rounded(u core.Use) core.Use {
	r := make(core.Use, 0, len(u))
	for i, n := range u {
		if i == core.UseCores || i == core.UseGPUs {
			r = append(r, math.Round(n*1000)/1000)
		} else {
			r = append(r, math.Round(n))
		}
	}
	return r
}

// Samples are what the nodes of a run have used, over all its attempts.
type Samples struct {
	// Attempt and Event are those of the newest sample: each event counts once.
	Attempt int   `json:"attempt"`
	Event   int64 `json:"event"`
	Thinned[Sample]
}

// Add adds what an event of an attempt had, and reports whether that is new.
func (s *Samples) Add(attempt int, event int64, at time.Time, u Used) bool {
	if attempt < s.Attempt || attempt == s.Attempt && event <= s.Event {
		return false
	}
	s.Attempt, s.Event = attempt, event
	s.Thinned.Add(Sample{Time: at, Attempt: attempt, Used: u})
	return true
}

// Summary is the use of a run as a whole.
type Summary struct {
	// Seconds are those that were measured.
	Seconds float64 `json:"seconds"`
	// Cores in use by all nodes together, on average.
	Cores float64 `json:"cores"`
	// MemoryBytes is the most that a node has used.
	MemoryBytes float64 `json:"memory_bytes"`
	// GPUs and GPUMemoryBytes are the same of GPUs; absent: there are none, or they are not known.
	GPUs           *float64 `json:"gpus,omitempty"`
	GPUMemoryBytes *float64 `json:"gpu_memory_bytes,omitempty"`
}

// Summary returns the use of the run as a whole; nil: nothing was measured.
func (s *Samples) Summary() *Summary {
	var sum Summary
	var gpus, gpuSeconds, gpuMemory float64
	for _, p := range s.Points {
		if len(p.Mean) < core.UseGPUs || len(p.Most) < core.UseGPUs || p.Seconds <= 0 {
			continue
		}
		sum.Seconds += p.Seconds
		sum.Cores += p.Mean[core.UseCores] * float64(p.Nodes) * p.Seconds
		sum.MemoryBytes = max(sum.MemoryBytes, p.Most[core.UseMemory])
		if len(p.Mean) == core.Uses && len(p.Most) == core.Uses {
			gpus += p.Mean[core.UseGPUs] * float64(p.Nodes) * p.Seconds
			gpuSeconds += p.Seconds
			gpuMemory = max(gpuMemory, p.Most[core.UseGPUMemory])
		}
	}
	if sum.Seconds <= 0 {
		return nil
	}
	sum.Cores /= sum.Seconds
	if gpuSeconds > 0 {
		gpus /= gpuSeconds
		sum.GPUs, sum.GPUMemoryBytes = &gpus, &gpuMemory
	}
	return &sum
}
