package burstsim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/bee-hpc/bee/internal/core"
)

const (
	// mostRequests bounds the memory and the time that one point takes.
	mostRequests = 3000000
	// copyRate is that of flows within one host, in bytes a second.
	copyRate = 10e9
	// From slowFrom of its room undrained, a buffer slows its writers; at waitFrom they wait.
	slowFrom, waitFrom = 0.70, 0.95
)

// Events returns the model of discrete events. Data flow in requests over network
// interfaces, switch, line and remote store, which they share max-min fairly. Hit rates
// are results.
func Events() *Model {
	return &Model{
		Name: "events", Most: 1000, compute: events, hits: "reuse", hitRates: "0%,25%,50%,75%,95%", hitLabel: "reuse",
		Settings: []Setting{
			{Name: "nodes", Unit: Count, Default: "20", Least: 1, Most: 10000, Whole: true, Meaning: "compute nodes"},
			{Name: "io_nodes", Unit: Count, Default: "4", Least: 1, Most: 10000, Whole: true, Meaning: "I/O nodes, if they are apart"},
			{Name: "placement", Unit: Word, Default: "apart", Words: []string{"apart", "colocated"}, Meaning: "apart: I/O nodes are hosts of their own; colocated: one on each compute node"},
			{Name: "replicas", Unit: Count, Default: "1", Least: 1, Most: 10, Whole: true, Meaning: "copies of what the remote store lacks"},
			{Name: "memory", Unit: Size, Default: "8GiB", Least: 2, Meaning: "of the buffer of one I/O node"},
			{Name: "chunk", Unit: Size, Default: "8MiB", Least: 1, Meaning: "most bytes of one request"},
			{Name: "balance", Unit: Word, Default: "hash", Words: []string{"hash", "even"}, Meaning: "how chunks are placed on I/O nodes: by a hash, or in turn"},
			{Name: "nic", Unit: Rate, Default: "135MB/s", Least: 1, Meaning: "rate of one host's network interface, each direction"},
			{Name: "switch", Unit: Rate, Default: "0", Meaning: "rate of the switch between hosts; 0: no limit"},
			{Name: "line", Unit: Rate, Default: "135MB/s", Least: 1, Meaning: "rate of the line to the remote store, each direction"},
			{Name: "round_trip", Unit: Seconds, Default: "40ms", Most: 3600, Meaning: "of the line, once for each request"},
			{Name: "stream", Unit: Rate, Default: "13.5MB/s", Least: 1, Meaning: "most rate of one request on the line"},
			{Name: "streams", Unit: Count, Default: "8", Least: 1, Most: 1000, Whole: true, Meaning: "requests of one I/O node on the line at a time, each direction"},
			{Name: "drains", Unit: Count, Default: "0", Most: 1000, Whole: true, Meaning: "those of them that drain what was written at a time; 0: as many as streams"},
			{Name: "direct_streams", Unit: Count, Default: "1", Least: 1, Most: 1000, Whole: true, Meaning: "requests of one compute node on the line at a time, without the buffer"},
			{Name: "depth", Unit: Count, Default: "4", Least: 1, Most: 1000, Whole: true, Meaning: "requests of one compute node to I/O nodes at a time"},
			{Name: "remote", Unit: Rate, Default: "0", Meaning: "rate of the remote store, each direction; 0: no limit"},
			{Name: "request", Unit: Seconds, Default: "0s", Most: 3600, Meaning: "time that the remote store takes for one request, beside its bytes"},
			{Name: "write", Unit: Size, Default: "50GB", Meaning: "bytes that all nodes write in one burst"},
			{Name: "every", Unit: Seconds, Default: "0s", Most: 1e8, Meaning: "time of computing before each burst"},
			{Name: "bursts", Unit: Count, Default: "1", Least: 1, Most: 10000, Whole: true, Meaning: "number of bursts"},
			{Name: "read", Unit: Size, Default: "50GB", Meaning: "bytes that all nodes read in all, in equal parts before the bursts"},
			{Name: "reuse", Unit: Share, Default: "50%", Most: 1, Meaning: "share of reads that repeat an earlier read"},
			{Name: "file", Unit: Size, Default: "1GiB", Least: 1, Meaning: "mean size of a file"},
			{Name: "sizes", Unit: Word, Default: "equal", Words: []string{"equal", "exponential"}, Meaning: "how sizes of files are distributed"},
			{Name: "price", Unit: Dollars, Default: "0.405", Meaning: "of one host an hour"},
		},
		Columns: []Column{
			{"direct_bytes_per_second", "direct", Rate, "bytes read and written without the buffer, by the time that the job waits for them"},
			{"buffered_bytes_per_second", "buffered", Rate, "the same with the buffer"},
			{"network_bytes_per_second", "network", Rate, "most that the local network can give between compute and I/O nodes"},
			{"direct_seconds", "direct time", Seconds, "until the job has ended, without the buffer"},
			{"buffered_seconds", "buffered time", Seconds, "until the job has ended, with the buffer"},
			{"drained_seconds", "drained", Seconds, "until everything is drained, too"},
			{"read_hits", "read hits", Share, "share of the bytes read that did not cross the line for this read"},
			{"write_hits", "write hits", Share, "share of the bytes written that the buffer accepted at once and at full rate"},
			{"undrained_peak_bytes", "peak", Size, "most undrained bytes on one I/O node"},
			{"direct_cost", "direct cost", Dollars, "of the compute nodes until the job has ended, without the buffer"},
			{"buffered_cost", "buffered cost", Dollars, "of the compute nodes until the job has ended, and of the I/O nodes until everything is drained"},
			{"best_io_nodes", "n*", Count, "I/O nodes at which a burst costs least: the root of replicas · nodes · line / nic"},
			{"events", "events", Count, "that were simulated"},
		},
	}
}

// scenario is a point of the model of events.
type scenario struct {
	nodes, ioNodes, replicas, streams, drains, directStreams, depth, bursts int
	colocated, even, exponential                                            bool
	memory, chunk, nic, sw, line, stream, remote                            float64
	latency, every                                                          float64 // seconds
	write, read, reuse, file, price                                         float64
	seed                                                                    uint64
}

func newScenario(p Point, seed int64) (*scenario, error) {
	n := func(name string) int { return int(p[name]) }
	c := &scenario{
		nodes: n("nodes"), ioNodes: n("io_nodes"), replicas: n("replicas"), streams: n("streams"), drains: n("drains"), directStreams: n("direct_streams"), depth: n("depth"), bursts: n("bursts"),
		colocated: p["placement"] == 1, even: p["balance"] == 1, exponential: p["sizes"] == 1,
		memory: math.Floor(p["memory"]), chunk: math.Floor(p["chunk"]), nic: p["nic"], sw: p["switch"], line: p["line"], stream: p["stream"], remote: p["remote"],
		latency: p["round_trip"] + p["request"], every: p["every"],
		write: math.Floor(p["write"]), read: math.Floor(p["read"]), reuse: p["reuse"], file: math.Floor(p["file"]), price: p["price"], seed: uint64(seed),
	}
	if c.colocated {
		c.ioNodes = c.nodes
	}
	if c.drains == 0 {
		c.drains = c.streams
	}
	wrong := func(object, remedy, format string, values ...any) error {
		return &core.Error{Kind: core.Invalid, Op: "simulate", Object: object, Err: fmt.Errorf(format, values...), Remedy: remedy}
	}
	switch requests := (c.read + c.write*float64(c.bursts)) / math.Min(c.chunk, c.file); {
	case c.read+c.write == 0:
		return nil, wrong("read and write", "Set read or write.", "both are 0")
	case c.replicas > c.ioNodes:
		return nil, wrong("replicas", "Set replicas to the number of I/O nodes at most.", "%d of them on %d I/O nodes", c.replicas, c.ioNodes)
	case c.memory < 2*c.chunk:
		return nil, wrong("memory", "Give memory for two chunks at least.", "%.0f bytes are less than two chunks of %.0f", c.memory, c.chunk)
	case requests > mostRequests:
		return nil, wrong("read and write", "Set less to read or write, or a larger chunk or file.", "they take %.0f requests, more than %d", requests, mostRequests)
	}
	return c, nil
}

// load is what the job reads and writes: sizes of chunks, and which chunk each read is of.
type load struct {
	sizes  []float64 // of chunks to be read, then of those to be written
	reads  []int32
	writes [][2]int32 // first and last + 1 of each burst
}

func (c *scenario) load() *load {
	rnd := rand.New(rand.NewPCG(c.seed, 1))
	l := &load{}
	l.sizes = c.split(l.sizes, c.read, rnd)
	n := len(l.sizes)
	fresh, all := int32(0), int32(max(1, math.Round(float64(n)*(1-c.reuse))))
	for i := range n {
		// Chosen at random, so that no node repeats more than another; all is met in the end.
		if i == 0 || rnd.IntN(n-i) < int(all-fresh) {
			l.reads = append(l.reads, fresh)
			fresh++
		} else {
			l.reads = append(l.reads, rnd.Int32N(fresh))
		}
	}
	for range c.bursts {
		first := int32(len(l.sizes))
		l.sizes = c.split(l.sizes, c.write, rnd)
		l.writes = append(l.writes, [2]int32{first, int32(len(l.sizes))})
	}
	return l
}

// split appends the sizes of the chunks of files of so many bytes.
func (c *scenario) split(sizes []float64, bytes float64, rnd *rand.Rand) []float64 {
	for bytes > 0 {
		file := c.file
		if c.exponential {
			file = math.Max(1, math.Floor(file*rnd.ExpFloat64()))
		}
		file = math.Min(file, bytes)
		bytes -= file
		for file > 0 {
			one := math.Min(file, c.chunk)
			sizes = append(sizes, one)
			file -= one
		}
	}
	return sizes
}

// bytes is how much is read and written.
func (l *load) bytes() (read, written float64) {
	for _, id := range l.reads {
		read += l.sizes[id]
	}
	for _, b := range l.writes {
		for _, size := range l.sizes[b[0]:b[1]] {
			written += size
		}
	}
	return read, written
}

func events(p Point, seed int64, stop func() error) ([]float64, error) {
	c, err := newScenario(p, seed)
	if err != nil {
		return nil, err
	}
	l := c.load()
	direct, buffered := newWorld(c, l, false), newWorld(c, l, true)
	for _, w := range []*world{direct, buffered} {
		if err := w.run(stop); err != nil {
			return nil, err
		}
	}
	read, written := l.bytes()
	ioHosts, compute := float64(c.ioNodes), float64(c.nodes)
	network := math.Min(compute, ioHosts) * c.nic
	if c.sw > 0 {
		network = math.Min(network, c.sw)
	}
	paid := compute*buffered.ended + ioHosts*buffered.drained
	if c.colocated {
		paid = compute * buffered.drained
	}
	share := func(part, whole float64) float64 {
		if whole == 0 {
			return math.NaN()
		}
		return part / whole
	}
	line := c.line
	if c.remote > 0 {
		line = math.Min(line, c.remote)
	}
	return []float64{
		(read + written) / direct.waited, (read + written) / buffered.waited, network,
		direct.ended, buffered.ended, buffered.drained,
		share(buffered.readHits, read), share(buffered.writeHits, written), buffered.peak,
		direct.ended * compute * c.price / 3600, paid * c.price / 3600,
		math.Max(1, math.Round(math.Sqrt(float64(c.replicas)*compute*line/c.nic))),
		float64(direct.s.Events() + buffered.s.Events()),
	}, nil
}
