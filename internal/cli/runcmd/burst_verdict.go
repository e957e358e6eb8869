package runcmd

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/burstsim"
	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// sampleTime is for how long files of growing size are sent by one stream.
	sampleTime = time.Second
	// leastSample and mostSample bound the size of such a file.
	leastSample, mostSample = 512 << 10, 64 << 20
	// manyStreams are sent at a time in the end.
	manyStreams = 8
	// bucketStreams are the parts of a file that the drain sends to a bucket at a time.
	bucketStreams = 4
	// mostMeasured bounds all of it.
	mostMeasured = 2 * time.Minute
	// fewBursts are simulated where nothing bounds their number.
	fewBursts, mostBursts = 6, 100
	// gain is by which part the job has to end earlier for a buffer to pay.
	gain = 0.05
)

// line is what was measured of a remote.
type line struct {
	roundTrip time.Duration
	one, many float64 // bytes per second of one stream, and of manyStreams
}

// burstVerdict is whether a burst buffer pays, with what that was predicted from.
type burstVerdict struct {
	// Verdict is pays, doesNotPay or unpredicted.
	Verdict string `json:"verdict"`
	Remote  string `json:"remote"`
	// RoundTripSeconds and the rates are measured: of one stream to the remote, of manyStreams,
	// and of the buffer's disk.
	RoundTripSeconds         float64 `json:"round_trip_seconds"`
	StreamBytesPerSecond     float64 `json:"stream_bytes_per_second"`
	LineBytesPerSecond       float64 `json:"line_bytes_per_second"`
	BufferDiskBytesPerSecond float64 `json:"buffer_disk_bytes_per_second"`
	// Prediction is what was simulated; nil: nothing, as the measured rates decide, or as the
	// Beefile does not name what the job writes.
	Prediction *burstPrediction `json:"prediction,omitempty"`
}

// burstPrediction compares a job with and without a burst buffer.
type burstPrediction struct {
	Bursts     int   `json:"bursts"`
	BurstBytes int64 `json:"burst_bytes"`
	// The job ends after Seconds, WaitSeconds of which it waits for reads and writes.
	Seconds           float64 `json:"seconds"`
	DirectSeconds     float64 `json:"direct_seconds"`
	WaitSeconds       float64 `json:"wait_seconds"`
	DirectWaitSeconds float64 `json:"direct_wait_seconds"`
	// DrainSeconds is from the job's end until the remote has everything.
	DrainSeconds float64 `json:"drain_seconds"`
	// BufferBytes is the room of the buffer, and EnoughBytes that in which the job never waits for the line.
	BufferBytes int64 `json:"buffer_bytes"`
	EnoughBytes int64 `json:"enough_bytes"`
	// Cost and DirectCost are by the prices in the sites file; 0: there are none.
	Cost       float64 `json:"cost,omitempty"`
	DirectCost float64 `json:"direct_cost,omitempty"`
	Currency   string  `json:"currency,omitempty"`
}

// Verdicts.
const (
	pays        = "use"
	doesNotPay  = "do_not_use"
	unpredicted = "no_prediction"
)

// measuredVerdict measures the remote of a job's burst buffer, and predicts whether the buffer pays.
// price is that of a host an hour; 0: none.
func measuredVerdict(ctx context.Context, a *workspace.Workspace, job *spec.Job, price float64) (*burstVerdict, error) {
	ctx, cancel := context.WithTimeout(ctx, mostMeasured)
	defer cancel()
	fail := func(err error) error {
		return &core.Error{Kind: core.KindOf(err), Op: "measure remote", Object: job.Volume.Remote, Err: err, Remedy: core.Remedy(err)}
	}
	if err := a.Paths(); err != nil {
		return nil, err
	}
	if err := fsutil.OwnDir(a.StateDir); err != nil {
		return nil, err
	}
	place, err := spec.ParseStore(job.Volume.Remote)
	if err != nil {
		return nil, fail(err)
	}
	notes, err := os.MkdirTemp("", "bee-probe-")
	if err != nil {
		return nil, err
	}
	defer fsutil.RemoveAll(notes)
	far, err := measure(ctx, func(id string) (remote.Remote, error) {
		return burst.Config{ID: id, Remote: job.Volume.Remote, At: remote.Place(place), Rate: int64(job.Volume.Rate) / 8, Dir: filepath.Join(notes, id)}.OpenRemote(catalog.FarVolume)
	}, manyStreams)
	if err != nil {
		return nil, fail(err)
	}
	if most := float64(job.Volume.Rate) / 8; most > 0 { // each stream was bounded by itself
		far.many = min(far.many, most)
	}
	disk, err := measure(ctx, func(id string) (remote.Remote, error) { return remote.OpenTree(a.StateDir, id, nil) }, 1)
	if err != nil {
		return nil, err
	}
	return verdict(job, far, disk.one, bufferRoom(job, a.StateDir), price, ctx.Err)
}

// bufferRoom is how many bytes a buffer of the job in dir may have.
func bufferRoom(job *spec.Job, dir string) int64 {
	var st unix.Statfs_t
	if job.Volume.Disk > 0 || unix.Statfs(dir, &st) != nil {
		return int64(job.Volume.Disk)
	}
	return int64(st.Bavail) * st.Bsize / 2
}

// measure sends files to a remote, and leaves none.
func measure(ctx context.Context, open func(id string) (remote.Remote, error), streams int) (line, error) {
	l := line{}
	all := make([]remote.Remote, streams)
	for i := range all {
		r, err := open(burst.NewID())
		if err != nil {
			return l, err
		}
		defer r.Close()
		defer context.AfterFunc(ctx, r.Stop)()
		all[i] = r
	}
	for range 3 {
		begun := time.Now()
		if _, err := all[0].Stat("."); err != nil {
			return l, err
		}
		if took := time.Since(begun); l.roundTrip == 0 || took < l.roundTrip {
			l.roundTrip = took
		}
	}
	data := make([]byte, 256<<10)
	rand.Read(data)
	size := int64(leastSample)
	for begun := time.Now(); ; size *= 2 {
		took, err := sample(ctx, all[0], size, data)
		if err != nil {
			return l, err
		}
		l.one = float64(size) / took.Seconds()
		if time.Since(begun) > sampleTime || size >= mostSample {
			break
		}
	}
	l.many = l.one
	if streams == 1 {
		return l, nil
	}
	each := max(size/4, leastSample)
	g, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for _, r := range all {
		g.Go(func() error {
			_, err := sample(ctx, r, each, data)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return l, err
	}
	l.many = max(l.one, float64(each)*float64(streams)/time.Since(begun).Seconds())
	return l, nil
}

// sample sends a file under a hidden name, and removes it. It returns how long sending took.
func sample(ctx context.Context, r remote.Remote, size int64, data []byte) (time.Duration, error) {
	const name = "bee-probe"
	c := remote.Content{
		Seq: 1, Size: size, Mode: 0o600, Mtime: time.Now().UnixNano(),
		Data: func(put func(off int64, data []byte) error) error {
			for off := int64(0); off < size; off += int64(len(data)) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err := put(off, data[:min(int64(len(data)), size-off)]); err != nil {
					return err
				}
			}
			return nil
		},
		At: func(p []byte, off int64) error {
			for n := 0; n < len(p); {
				n += copy(p[n:], data[(off+int64(n))%int64(len(data)):])
			}
			return ctx.Err()
		},
	}
	begun := time.Now()
	_, _, err := r.Write(ctx, name, 1, c)
	took := time.Since(begun)
	if derr := r.Discard(name, 1); err == nil {
		err = derr
	}
	return max(took, time.Microsecond), err
}

// verdict predicts by simulation what a burst buffer on one host is worth. disk is the rate of the
// buffer's disk.
func verdict(job *spec.Job, far line, disk float64, room int64, price float64, stop func() error) (*burstVerdict, error) {
	v := &burstVerdict{
		Verdict: unpredicted, Remote: job.Volume.Remote, RoundTripSeconds: far.roundTrip.Seconds(),
		StreamBytesPerSecond: far.one, LineBytesPerSecond: far.many, BufferDiskBytesPerSecond: disk,
	}
	e := job.Volume.Expect
	if e.Write == 0 && e.Read == 0 {
		return v, nil
	}
	if far.one >= disk {
		v.Verdict = doesNotPay
		return v, nil
	}
	bursts := 1
	if e.Write > 0 && e.Every > 0 {
		if bursts = fewBursts; job.Time > 0 {
			bursts = min(max(int(job.Time/e.Every), 1), mostBursts)
		}
	}
	streams := 1 // of the drain
	if strings.HasPrefix(job.Volume.Remote, "s3://") {
		streams = bucketStreams
	}
	written := float64(bursts) * float64(e.Write)
	simulate := func(memory float64) (func(string) float64, error) {
		s, err := burstsim.Events().Set([]string{
			"nodes=1", "io_nodes=1", "placement=colocated", "replicas=1", "direct_streams=1", fmt.Sprintf("streams=%d", streams), fmt.Sprintf("memory=%.0f", memory),
			fmt.Sprintf("write=%d", e.Write), fmt.Sprintf("every=%gs", e.Every.Seconds()), fmt.Sprintf("bursts=%d", bursts),
			fmt.Sprintf("read=%d", e.Read), fmt.Sprintf("reuse=%g", e.Reuse), fmt.Sprintf("line=%.0fB/s", far.many), fmt.Sprintf("stream=%.0fB/s", far.one),
			fmt.Sprintf("round_trip=%gs", far.roundTrip.Seconds()), fmt.Sprintf("price=%g", price),
		})
		if err != nil {
			return nil, err
		}
		t, err := s.Run(1, stop)
		if err != nil {
			return nil, err
		}
		return func(column string) float64 { return t.Result(0, column) }, nil
	}
	got, err := simulate(float64(room))
	if err != nil {
		return nil, err
	}
	plenty, err := simulate(2*written + float64(e.Read) + float64(1<<30))
	if err != nil {
		return nil, err
	}
	onDisk := written / disk // the model writes to memory
	direct, buffered := got("direct_seconds"), got("buffered_seconds")+onDisk
	drained := got("drained_seconds") + onDisk
	compute := float64(bursts) * e.Every.Seconds()
	v.Verdict = pays
	if buffered > (1-gain)*direct {
		v.Verdict = doesNotPay
	}
	v.Prediction = &burstPrediction{
		Bursts: bursts, BurstBytes: int64(e.Write), Seconds: buffered, DirectSeconds: direct,
		WaitSeconds: max(buffered-compute, 0), DirectWaitSeconds: max(direct-compute, 0), DrainSeconds: max(drained-buffered, 0),
		BufferBytes: room, EnoughBytes: int64(plenty("undrained_peak_bytes") / 0.7), Cost: price * drained / 3600, DirectCost: price * direct / 3600,
	}
	return v, nil
}

// text gives the verdict in sentences, the verdict first.
func (v *burstVerdict) text() string {
	rate := func(bytes float64) string { return console.BytesText(int64(bytes)) + "/s" }
	measured := fmt.Sprintf("Measured: round trip %s, %s by one stream and %s by %d; the buffer's disk takes %s.",
		console.Seconds(v.RoundTripSeconds), rate(v.StreamBytesPerSecond), rate(v.LineBytesPerSecond), manyStreams, rate(v.BufferDiskBytesPerSecond))
	name, p := output.Printable(v.Remote), v.Prediction
	switch {
	case v.Verdict == unpredicted:
		return "Burst buffer: no prediction for " + name + ", as the Beefile has no `expect:`.\n" + measured +
			"\nGive `expect: {write: 40G, every: 10m}` in `volume:` of what the job writes at a time, and how often.\n"
	case p == nil:
		return fmt.Sprintf("Burst buffer: do not use it here. %s takes %s, and the buffer's disk %s.\n%s\n", name, rate(v.StreamBytesPerSecond), rate(v.BufferDiskBytesPerSecond), measured)
	}
	first := "use it"
	if v.Verdict == doesNotPay {
		first = "do not use it here"
	}
	text := fmt.Sprintf("Burst buffer: %s. The job ends after %s with it, and after %s without.\n%s\n", first, console.Seconds(p.Seconds), console.Seconds(p.DirectSeconds), measured) +
		fmt.Sprintf("In %d bursts of %s the job waits %s in all with the buffer, and %s without.\n", p.Bursts, console.BytesText(p.BurstBytes), console.Seconds(p.WaitSeconds), console.Seconds(p.DirectWaitSeconds)) +
		fmt.Sprintf("All is drained %s after its end. With a buffer of %s (`disk:`) it never waits for the line; here it has %s.\n", console.Seconds(p.DrainSeconds), console.BytesText(p.EnoughBytes), console.BytesText(p.BufferBytes))
	if p.Cost > 0 {
		text += fmt.Sprintf("Cost: %s with the buffer, until it is drained, and %s without.\n", console.CostText(p.Cost, p.Currency), console.CostText(p.DirectCost, p.Currency))
	}
	return text
}
