package recordcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/report/page"
)

// sampleView is what the nodes of a run have used over some seconds, as --json gives it.
type sampleView struct {
	Time    time.Time `json:"time"` // of its end
	Attempt int       `json:"attempt"`
	Seconds float64   `json:"seconds"`
	Nodes   int       `json:"nodes"`
	Mean    *useView  `json:"mean,omitempty"`
	Least   *useView  `json:"least,omitempty"`
	Most    *useView  `json:"most,omitempty"`
	// ByNode are the first nodes; null: one did not answer.
	ByNode []*useView `json:"by_node"`
}

// useView is what a node has used.
type useView struct {
	Cores               float64  `json:"cores"`
	MemoryBytes         float64  `json:"memory_bytes"`
	ReadBytesPerSecond  float64  `json:"read_bytes_per_second"`
	WriteBytesPerSecond float64  `json:"write_bytes_per_second"`
	GPUs                *float64 `json:"gpus,omitempty"`
	GPUMemoryBytes      *float64 `json:"gpu_memory_bytes,omitempty"`
}

func sampleViews(samples []measure.Sample) []sampleView {
	views := make([]sampleView, 0, len(samples))
	for _, s := range samples {
		v := sampleView{Time: s.Time, Attempt: s.Attempt, Seconds: s.Seconds, Nodes: s.Nodes, Mean: viewUse(s.Mean), Least: viewUse(s.Least), Most: viewUse(s.Most), ByNode: []*useView{}}
		for _, u := range s.Single {
			v.ByNode = append(v.ByNode, viewUse(u))
		}
		views = append(views, v)
	}
	return views
}

func viewUse(u core.Use) *useView {
	if len(u) < core.UseGPUs {
		return nil
	}
	v := &useView{Cores: u[core.UseCores], MemoryBytes: u[core.UseMemory], ReadBytesPerSecond: u[core.UseRead], WriteBytesPerSecond: u[core.UseWritten]}
	if len(u) == core.Uses {
		v.GPUs, v.GPUMemoryBytes = &u[core.UseGPUs], &u[core.UseGPUMemory]
	}
	return v
}

// useText is the use of a run in one line.
func useText(u *measure.Summary) string {
	text := fmt.Sprintf("%.1f cores on average, at most %s of memory on a node", u.Cores, console.BytesText(int64(u.MemoryBytes)))
	if u.GPUs != nil {
		text += fmt.Sprintf("; %.1f GPUs on average, at most %s of their memory on a node", *u.GPUs, console.BytesText(int64(*u.GPUMemoryBytes)))
	}
	return text
}

// usePlots are what the nodes of a run have used, over time: of all on average, and of the first
// nodes one by one. The host of a rank is for people.
func usePlots(samples []measure.Sample, hostOf func(rank int) string) []page.Plot {
	nodes, single := 0, 0
	for _, s := range samples {
		nodes, single = max(nodes, s.Nodes), max(single, len(s.Single))
	}
	bytesText := func(n float64) string { return console.BytesText(int64(n)) }
	rateText := func(n float64) string { return bytesText(n) + "/s" }
	countText := func(n float64) string { return fmt.Sprintf("%.3g", n) }
	names := [core.Uses]string{
		core.UseCores: "Cores in use", core.UseMemory: "Memory in use", core.UseRead: "Read from disks", core.UseWritten: "Written to disks",
		core.UseGPUs: "GPUs in use", core.UseGPUMemory: "Memory of GPUs in use",
	}
	texts := [core.Uses]func(float64) string{countText, bytesText, rateText, rateText, countText, bytesText}
	var plots []page.Plot
	for use := range core.Uses {
		p := page.Plot{Name: names[use], Text: texts[use]}
		add := func(name string, of func(measure.Sample) core.Use) {
			if c := useCurve(name, use, samples, of); len(c.Points) > 0 {
				p.Curves = append(p.Curves, c)
			}
		}
		if nodes > 1 {
			add(fmt.Sprintf("Mean of %d nodes", nodes), func(s measure.Sample) core.Use { return s.Mean })
		}
		if nodes > single {
			add("Least of a node", func(s measure.Sample) core.Use { return s.Least })
			add("Most of a node", func(s measure.Sample) core.Use { return s.Most })
		}
		for rank := range single {
			add(fmt.Sprintf("Node %d%s", rank, hostOf(rank)), func(s measure.Sample) core.Use {
				if rank < len(s.Single) {
					return s.Single[rank]
				}
				return nil
			})
		}
		plots = append(plots, p)
	}
	return plots
}

// useCurve has a point at the end of each sample, and at the begin of the first one of an attempt.
func useCurve(name string, use int, samples []measure.Sample, of func(measure.Sample) core.Use) page.Curve {
	c := page.Curve{Name: name}
	attempt := 0
	for _, s := range samples {
		u := of(s)
		if use >= len(u) {
			continue
		}
		if s.Attempt != attempt {
			attempt = s.Attempt
			c.Begins = append(c.Begins, len(c.Points))
			c.Points = append(c.Points, measure.Point{Time: s.Time.Add(-time.Duration(s.Seconds * float64(time.Second))), Value: u[use]})
		}
		c.Points = append(c.Points, measure.Point{Time: s.Time, Value: u[use]})
	}
	return c
}

// hostsOfRank names the hosts that a node had in the attempts of a run, for people.
func hostsOfRank(v runview.View, rank int) string {
	var names []string
	for _, at := range v.Attempts {
		for _, n := range at.Nodes {
			if n.Rank == rank && n.Host != "" && !slices.Contains(names, n.Host) {
				names = append(names, n.Host)
			}
		}
		if len(at.Nodes) > 0 || len(at.Hosts) == 0 { // else the attempt is not over
			continue
		}
		perHost := (v.Nodes + len(at.Hosts) - 1) / len(at.Hosts)
		if i := rank / max(perHost, 1); i < len(at.Hosts) && !slices.Contains(names, at.Hosts[i]) {
			names = append(names, at.Hosts[i])
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " on " + strings.Join(names, ", ")
}
