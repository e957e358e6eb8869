// Command frames measures how fast frames pass between native endpoints that
// speak what hypervisors do: through BEE's switches, and through what else there
// is. `make bench` starts it in a network namespace of its own; it writes its
// figures as JSON, and is not for people.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Result is one figure.
type Result struct {
	What   string  `json:"what"`
	Size   int     `json:"size"`
	Gbit   float64 `json:"gbit"`     // per second, that arrived
	PerCPU float64 `json:"per_cpu"`  // of it for each second of processor time of all who took part
	Alone  float64 `json:"alone"`    // of it for each second of the switches', without the endpoints; 0: there is none
	Lost   float64 `json:"lost"`     // part of what was sent
	Micros float64 `json:"micros"`   // one way, half of a median round trip of 64 bytes
	MB     float64 `json:"mb"`       // resident at most
	Hosts  int     `json:"hosts"`    // that took part
	Shape  string  `json:"pattern"`  // who sends to whom
	Note   string  `json:"note"`     // why there is no figure
	Second float64 `json:"duration"` // how long it was measured, in seconds
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == switchArg {
		fmt.Fprintln(os.Stderr, "frames:", beSwitch(os.Args[2]))
		os.Exit(1)
	}
	if len(os.Args) == 2 && os.Args[1] == aloneArg {
		fmt.Fprintln(os.Stderr, "frames:", alone())
		os.Exit(1)
	}
	span := 1500 * time.Millisecond
	if len(os.Args) > 1 {
		var err error
		if span, err = time.ParseDuration(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "frames:", err)
			os.Exit(2)
		}
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "frames:", err)
		os.Exit(1)
	}
	only := strings.Join(os.Args[min(2, len(os.Args)):], " ") // to look at one way or pattern while one works on it
	out := json.NewEncoder(os.Stdout)
	for _, r := range pairs(only, span) {
		out.Encode(r) //nolint:errcheck // a pipe
	}
	if strings.Contains("memory", only) {
		out.Encode(memory(span)) //nolint:errcheck // a pipe
	}
	for _, pattern := range patterns() {
		if !strings.Contains(pattern, only) {
			continue
		}
		for _, size := range []int{1500, 64000} {
			for _, r := range crowds(pattern, size, span) {
				out.Encode(r) //nolint:errcheck // a pipe
			}
		}
	}
}

// prepare makes the namespace ready: its loopback carries multicast.
func prepare() error {
	for _, line := range []string{"link set lo up multicast on mtu 65536", "route add 239.0.0.0/8 dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}

// windows are how many frames may be on the way: each way is measured with all,
// and its best counts.
func windows(size int) []int {
	if size > 9000 {
		return []int{2, 8, 24}
	}
	return []int{8, 32, 256}
}

// turns are how often each is measured, one after the other: what else the machine does
// changes meanwhile, for all of them alike.
const turns = 3

// median gives the one in the middle of several measurements, and the time on the way
// likewise.
func median(some []Result) Result {
	slices.SortFunc(some, func(a, b Result) int { return cmp.Compare(a.Micros, b.Micros) })
	micros := some[len(some)/2].Micros
	slices.SortFunc(some, func(a, b Result) int { return cmp.Compare(a.Gbit, b.Gbit) })
	r := some[len(some)/2]
	r.Micros = micros
	return r
}

// byTurns gives the median of each of n measurements.
func byTurns(n int, measure func(i int) Result) (medians []Result) {
	all := make([][]Result, n)
	for range turns {
		for i := range all {
			all[i] = append(all[i], measure(i))
		}
	}
	for _, some := range all {
		medians = append(medians, median(some))
	}
	return medians
}

// pairs gives the median of each way's turns between two endpoints.
func pairs(only string, span time.Duration) []Result {
	type size struct {
		route
		bytes int
	}
	var chosen []size
	for _, w := range routes() {
		for _, bytes := range []int{1500, 64000} {
			if strings.Contains(w.name, only) && (w.most == 0 || bytes <= w.most) {
				chosen = append(chosen, size{w, bytes})
			}
		}
	}
	return byTurns(len(chosen), func(i int) Result { return pairOf(chosen[i].route, chosen[i].bytes, span/turns) })
}

// pairOf measures one way between two endpoints.
func pairOf(w route, size int, span time.Duration) Result {
	best := Result{What: w.name, Size: size, Hosts: 2, Shape: "pair"}
	guests := max(w.guests, 1)
	var flows []flow
	for i := range guests {
		flows = append(flows, flow{from: i, to: guests + i})
	}
	for _, window := range windows(size) {
		ends, undo, err := w.make()
		if err != nil {
			best.Note = err.Error()
			return best
		}
		r := measure(ends, flows, size, max(window/guests, 2), span)
		if best.Micros == 0 && guests == 1 {
			best.Micros = pingPong(ends[0], ends[1])
		}
		undo()
		if r.Gbit > best.Gbit {
			r.What, r.Micros, r.Hosts, r.Shape = best.What, best.Micros, best.Hosts, best.Shape
			best = r
		}
	}
	return best
}

// crowds gives the median of each kind's turns.
func crowds(pattern string, size int, span time.Duration) []Result {
	kinds := meshes()
	return byTurns(len(kinds), func(i int) Result { return crowd(kinds[i], pattern, size, span/turns) })
}

// crowd measures many endpoints at once.
func crowd(kind, pattern string, size int, span time.Duration) Result {
	best := Result{What: kind, Size: size, Hosts: crowdSize, Shape: pattern}
	for _, window := range []int{2, 8} {
		ends, undo, err := crowdOf(kind)
		if err != nil {
			best.Note = err.Error()
			return best
		}
		r := measure(ends, flowsOf(pattern), size, window, span)
		undo()
		if r.Gbit > best.Gbit {
			r.What, r.Hosts, r.Shape = best.What, best.Hosts, best.Shape
			best = r
		}
	}
	return best
}

const crowdSize = 16

func patterns() []string { return []string{"all to all", "ring", "all to one"} }

// flowsOf gives who sends to whom.
func flowsOf(pattern string) []flow {
	var flows []flow
	for from := range crowdSize {
		for to := range crowdSize {
			if from != to && (pattern == "all to all" || pattern == "ring" && to == (from+1)%crowdSize || pattern == "all to one" && to == 0) {
				flows = append(flows, flow{from: from, to: to})
			}
		}
	}
	return flows
}
