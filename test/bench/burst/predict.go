package main

import (
	"fmt"
	"math"
	"time"

	"github.com/bee-hpc/bee/internal/burstsim"
)

// price of a host an hour, in dollars, is the study's. Errors do not depend on it.
const price = 0.405

// network is what was measured of the network and of the remote, before any scenario.
type network struct {
	nic, up, down, stream float64 // bytes per second: of a host, of the line by 8 streams in each direction and by one
	roundTrip             time.Duration
	request               time.Duration // that one small file takes to be drained, without the round trip
}

// scenario is one of those that are predicted and measured.
type scenario struct {
	name        string
	clients     int
	file        int64 // bytes of each file
	read, write int64 // bytes that all clients read in all, and write in each burst
	bursts      int
	every       time.Duration // of computing before each burst
	depth       int
	room        int64 // bytes of the buffer
	// streams are requests on the line at a time: the answers of one ssh connection come one after the other, and the
	// next one is asked for meanwhile. upstream are those of them that drain.
	streams, upstream int
}

// figures are what is predicted and measured.
type figures struct {
	rate    float64 // bytes per second, while the job waits for them
	drained float64 // seconds from the beginning to the end of the drain
	cost    float64 // dollars
}

// piece is what a client reads and writes by one request. The model's chunks are as large.
const piece = 1 << 20

// settings are those of the simulator's model of events. Each chunk that is read takes a round trip, and a file that is
// drained takes its time once, which its chunks share.
func (s scenario) settings(m network) []string {
	line, each := min(m.up, m.down), (m.roundTrip+m.request)*piece/time.Duration(s.file)
	switch {
	case s.write == 0:
		line, each = m.down, m.roundTrip
	case s.read == 0:
		line = m.up
	}
	bytes := func(v int64) string { return fmt.Sprintf("%dB", v) }
	rate := func(v float64) string { return fmt.Sprintf("%.0fB/s", v) }
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.6fs", d.Seconds()) }
	return []string{
		fmt.Sprintf("nodes=%d", s.clients), "io_nodes=1", "replicas=1", "placement=apart", "reuse=0%", fmt.Sprintf("price=%g", price),
		"memory=" + bytes(s.room), "chunk=" + bytes(piece), "file=" + bytes(s.file), "read=" + bytes(s.read), "write=" + bytes(s.write),
		fmt.Sprintf("bursts=%d", s.bursts), "every=" + seconds(s.every), fmt.Sprintf("depth=%d", s.depth), fmt.Sprintf("streams=%d", s.streams), fmt.Sprintf("drains=%d", s.upstream),
		"nic=" + rate(m.nic), "line=" + rate(line), "stream=" + rate(m.stream), "round_trip=" + seconds(each),
	}
}

// predict simulates a scenario on what was measured of the network.
func (s scenario) predict(m network, stop func() error) (figures, error) {
	sweep, err := burstsim.Events().Set(s.settings(m))
	if err != nil {
		return figures{}, err
	}
	t, err := sweep.Run(1, stop)
	if err != nil {
		return figures{}, err
	}
	return figures{t.Result(0, "buffered_bytes_per_second"), t.Result(0, "drained_seconds"), t.Result(0, "buffered_cost")}, nil
}

// plan is what the clients do in a scenario. Files that are read are there before.
func (s scenario) plan(prefix string) plan {
	p := plan{Clients: s.clients, Every: s.every, Depth: s.depth, Size: s.file}
	reads := files(prefix+"-read", int(s.read/s.file))
	for i := range s.bursts {
		p.Phases = append(p.Phases, phase{Read: reads[i*len(reads)/s.bursts : (i+1)*len(reads)/s.bursts], Write: files(fmt.Sprintf("%s-write%d", prefix, i), int(s.write/s.file))})
	}
	return p
}

// measured gives the figures of a scenario that was carried out. Its first time of computing counts, too.
func (s scenario) measured(d done) figures {
	first := d.begun.Add(-s.every)
	ended, drained := d.ended.Sub(first).Seconds(), d.drained.Sub(first).Seconds()
	drained = max(drained, ended)
	bytes := float64(s.read + int64(s.bursts)*s.write)
	return figures{bytes / d.waited.Seconds(), drained, (float64(s.clients)*ended + drained) * price / 3600}
}

// rows compares a prediction with a measurement: the error is of the prediction.
func (s scenario) rows(got, want figures) (rows []Row) {
	for _, f := range []struct {
		what      string
		got, want float64
		text      func(float64) string
	}{
		{"throughput", got.rate, want.rate, func(v float64) string { return fmt.Sprintf("%.2f MB/s", v/1e6) }},
		{"until drained", got.drained, want.drained, func(v float64) string { return fmt.Sprintf("%.2f s", v) }},
		{"cost", got.cost, want.cost, func(v float64) string { return fmt.Sprintf("%.4f ¢", v*100) }},
	} {
		share := math.NaN()
		if f.got > 0 {
			share = (f.want - f.got) / f.got
		}
		rows = append(rows, Row{fmt.Sprintf("%s, %d clients: %s", s.name, s.clients, f.what), f.text(f.got), "predicted " + f.text(f.want), fmt.Sprintf("%+.1f %%", 100*share)})
	}
	return rows
}
