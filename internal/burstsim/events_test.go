package burstsim

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// study are the assumptions of the study: no delays, even load, one replica.
var study = []string{"round_trip=0s", "balance=even", "memory=200GB"}

func simulate(t *testing.T, assignments ...string) func(string) float64 {
	t.Helper()
	table := run(t, Events(), assignments...)
	return func(name string) float64 { return table.Result(0, name) }
}

func with(more ...string) []string { return append(slices.Clone(study), more...) }

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	near(t, what, got, want, share*want)
}

// TestDirectIsTheStudys: n · line / 10 up to ten nodes, then the line.
func TestDirectIsTheStudys(t *testing.T) {
	table := run(t, Events(), with("nodes=1,2,5,10,20", "read=0", "write=10GB")...)
	for i, want := range []float64{13.5, 27, 67.5, 135, 135} {
		within(t, "direct", table.Result(i, "direct_bytes_per_second")/1e6, want, 0.02)
	}
}

// TestBurst: a burst that fits runs at the rate of the slower side, and its drain at that
// of the line. Each replica takes its part of the I/O nodes' rate.
func TestBurst(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     []string
		burst   float64 // MB/s
		drained float64 // s
	}{
		{"more I/O nodes", []string{"nodes=4", "io_nodes=8"}, 540, 741},
		{"fewer I/O nodes", []string{"nodes=20", "io_nodes=4"}, 540, 741},
		{"one of each", []string{"nodes=1", "io_nodes=1"}, 135, 926}, // by 8 streams of 13.5 MB/s
		{"two replicas", []string{"nodes=20", "io_nodes=4", "replicas=2"}, 270, 741},
		{"three replicas", []string{"nodes=20", "io_nodes=6", "replicas=3"}, 270, 741},
		{"switch", []string{"nodes=20", "io_nodes=20", "switch=1000MB/s"}, 1000, 741},
		{"remote", []string{"nodes=20", "io_nodes=4", "remote=50MB/s"}, 540, 2000},
		{"colocated, two replicas", []string{"nodes=8", "placement=colocated", "replicas=2"}, 945, 741}, // the drain takes its part of the interfaces
	} {
		r := simulate(t, with(append(c.set, "read=0", "write=100GB")...)...)
		within(t, c.name+", burst", r("buffered_bytes_per_second")/1e6, c.burst, 0.02)
		within(t, c.name+", drained", r("drained_seconds"), c.drained, 0.02)
		near(t, c.name+", write hits", r("write_hits"), 1, 0)
	}
}

// TestCostWithTheDrain: with the drain paid, as many I/O nodes as compute nodes cost more
// than direct I/O, and the root of nodes · line / nic costs least.
func TestCostWithTheDrain(t *testing.T) {
	table := run(t, Events(), with("read=0", "write=100GB", "io_nodes=20,4,5")...)
	for i, want := range []float64{1.75, 0.75, 0.75} {
		near(t, "cost", table.Result(i, "buffered_cost"), want, 0.02)
		near(t, "direct cost", table.Result(i, "direct_cost"), 1.67, 0.02)
		near(t, "n*", table.Result(i, "best_io_nodes"), 4, 0)
	}
}

// TestReadsBreakEven: reads cost the same at the hit rate 1 − Nc/(Nc + n).
func TestReadsBreakEven(t *testing.T) {
	for _, c := range []struct{ nodes, io, reuse string }{{"20", "20", "50%"}, {"10", "30", "75%"}, {"15", "5", "25%"}} {
		r := simulate(t, with("write=0", "read=60GB", "nodes="+c.nodes, "io_nodes="+c.io, "reuse="+c.reuse)...)
		within(t, c.reuse+", cost", r("buffered_cost"), r("direct_cost"), 0.03)
		if hits := run(t, Events(), with("write=0", "read=60GB", "reuse="+c.reuse)...); math.Abs(hits.Result(0, "read_hits")-hits.Rows[0].Point["reuse"]) > 0.01 {
			t.Errorf("read hits: %v of %s", hits.Result(0, "read_hits"), c.reuse)
		}
	}
}

// TestBufferTooSmall: what does not fit goes at the rate of the line.
func TestBufferTooSmall(t *testing.T) {
	r := simulate(t, "round_trip=0s", "balance=even", "read=0", "write=50GB", "memory=1GB", "chunk=4MB")
	room := waitFrom * 4e9 // of four I/O nodes
	within(t, "time", r("buffered_seconds"), (50e9-room)/135e6, 0.03)
	within(t, "drained", r("drained_seconds"), 50e9/135e6, 0.02)
	if peak := r("undrained_peak_bytes"); peak > waitFrom*1e9 || peak < slowFrom*1e9 {
		t.Errorf("the peak is %v", peak)
	}
	if hits := r("write_hits"); hits > 0.2 || hits <= 0 {
		t.Errorf("write hits: %v", hits)
	}
}

// TestCapacity: of data that do not fit, as much is read from the buffer as fits.
func TestCapacity(t *testing.T) {
	base := []string{"round_trip=0s", "write=0", "nodes=1", "io_nodes=1", "depth=1", "chunk=1MB", "file=1MB", "read=20GB", "reuse=95%"}
	all := simulate(t, append(base, "memory=2GB")...)
	within(t, "all fits", all("read_hits"), 0.95, 0.001)
	part := simulate(t, append(base, "memory=250MB")...)
	// Reads are spread evenly over what was read before: 250 MB of up to 1 GB fit.
	want := 0.0
	for i := range 1000 {
		want += 0.95 * math.Min(1, 250/float64(i+1)) / 1000
	}
	near(t, "a part fits", part("read_hits"), want, 0.06)
}

// TestRoundTrip: each request of a stream waits for one.
func TestRoundTrip(t *testing.T) {
	r := simulate(t, "nodes=1", "io_nodes=1", "streams=1", "read=0", "write=100MB", "chunk=1MB", "stream=10MB/s", "round_trip=100ms", "request=50ms")
	within(t, "direct", r("direct_seconds"), 100*(0.15+0.1), 1e-6)
	within(t, "drained", r("drained_seconds"), 100*(0.15+0.1)+1/135., 1e-3)
}

// TestPhases: what is drained while the job computes costs it nothing.
func TestPhases(t *testing.T) {
	r := simulate(t, with("read=0", "write=10GB", "every=10m", "bursts=3")...)
	within(t, "job", r("buffered_seconds"), 3*(600+10e9/540e6), 0.01)
	within(t, "drained", r("drained_seconds"), r("buffered_seconds")+10e9/135e6-10e9/540e6, 0.01)
	within(t, "direct", r("direct_seconds"), 3*(600+10e9/135e6), 0.01)
}

// TestLeastMemory: with the peak below 70 % of the memory, no writer is slowed; with less
// memory, some are.
func TestLeastMemory(t *testing.T) {
	base := []string{"round_trip=0s", "balance=even", "read=0", "write=20GB", "bursts=2", "every=30s"}
	peak := simulate(t, append(base, "memory=100GB")...)("undrained_peak_bytes")
	memory := func(bytes float64) string { return fmt.Sprintf("memory=%.0f", bytes) }
	near(t, "write hits", simulate(t, append(base, memory(peak/slowFrom+1))...)("write_hits"), 1, 0)
	if hits := simulate(t, append(base, memory(peak))...)("write_hits"); hits >= 1 {
		t.Errorf("nothing was slowed in a buffer of %v bytes", peak)
	}
}

// TestBytesAreConserved: all that is written reaches the remote store once, all that is
// read reaches the job, each chunk that fits crosses the line once, and all room is free
// at the end.
func TestBytesAreConserved(t *testing.T) {
	for _, set := range [][]string{
		{},
		{"memory=64MiB", "io_nodes=3", "replicas=3"},
		{"memory=40MiB", "placement=colocated", "nodes=7", "replicas=2"},
		{"sizes=exponential", "file=3MB", "memory=100MB", "bursts=5", "every=1s", "reuse=80%", "replicas=2"},
		{"balance=even", "memory=16MiB", "io_nodes=2", "replicas=2", "depth=9"},
	} {
		sweep, err := Events().Set(append([]string{"read=3GB", "write=2GB"}, set...))
		if err != nil {
			t.Fatal(err)
		}
		c, err := newScenario(sweep.Points()[0], 7)
		if err != nil {
			t.Fatal(err)
		}
		l := c.load()
		read, written := l.bytes()
		for _, buffered := range []bool{false, true} {
			w := newWorld(c, l, buffered)
			if err := w.run(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			if w.accepted != written || w.sent != written || w.received != read || w.phase != c.bursts || written != float64(c.bursts)*2e9 {
				t.Errorf("%q, buffer %v: %v written, %v accepted, %v sent; %v read, %v received; %d phases", set, buffered, written, w.accepted, w.sent, read, w.received, w.phase)
			}
			if buffered && w.fetched != read-w.readHits || !buffered && w.fetched != read {
				t.Errorf("%q, buffer %v: %v fetched of %v, %v hits", set, buffered, w.fetched, read, w.readHits)
			}
			for i := range w.io {
				k := &w.io[i]
				near(t, "room", k.free+k.recent.bytes+k.frequent.bytes, c.memory, 1e-3)
				near(t, "undrained", k.undrained, 0, 1e-3)
				if len(k.waiting)+len(k.drains)+len(k.fetches)+k.draining+k.fetching > 0 {
					t.Errorf("%q: requests are left", set)
				}
			}
			if w.peak > waitFrom*c.memory {
				t.Errorf("%q: %v undrained in %v", set, w.peak, c.memory)
			}
		}
	}
}

func TestSameSeedSameResult(t *testing.T) {
	s, err := Events().Set([]string{"read=5GB", "write=5GB", "sizes=exponential", "file=20MB", "memory=300MB"})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, seed := range []int64{1, 1, 2} {
		table, err := s.Run(seed, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(table.CSV()))
	}
	if all[0] != all[1] || all[0] == all[2] {
		t.Errorf("%q", all)
	}
}

func TestWrongScenarios(t *testing.T) {
	for _, set := range [][]string{{"read=0", "write=0"}, {"replicas=5"}, {"memory=8MiB"}, {"file=1KB"}, {"bursts=10000", "chunk=1MB"}} {
		s, err := Events().Set(set)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(1, func() error { return nil }); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%q: %v", set, err)
		}
	}
}

// TestLarge: 1,000 nodes and 100,000 files take less than 30 s of one core. A fifth of
// them is as good a proof, and quicker.
func TestLarge(t *testing.T) {
	began := used(t)
	r := simulate(t, "nodes=1000", "io_nodes=100", "file=4MB", "read=40GB", "write=40GB", "replicas=2")
	took := used(t) - began
	t.Logf("%.0f events in %v of one core", r("events"), took)
	if r("events") < 80000 || took > 6*time.Second {
		t.Errorf("%.0f events took %v", r("events"), took)
	}
}

// TestMillion: a million events take seconds.
func TestMillion(t *testing.T) {
	began := used(t)
	r := simulate(t, "file=1MB", "read=150GB", "write=100GB", "depth=16")
	took := used(t) - began
	t.Logf("%.0f events in %v of one core", r("events"), took)
	if r("events") < 1e6 || took > 20*time.Second {
		t.Errorf("%.0f events took %v", r("events"), took)
	}
}

// used is the time that this process has had of all cores.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
