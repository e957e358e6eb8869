package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// measurement has the lab, and what was measured there.
type measurement struct {
	*lab
	sizes
	net      network
	wide     *job // with a buffer that has room for everything
	inBucket *job // the same, with a bucket as the remote
	// burst is what came of four clients that wrote into an empty buffer.
	burst done
}

// The files of bursts have one size, and each client writes and reads several at a time.
const (
	burstFile  = 4 << 20
	burstDepth = 4
	wideRoom   = 2 << 30
	narrowRoom = 64 << 20
	echoPort   = 7007
)

// limits measures the network without anything of BEE.
func (m *measurement) limits(ctx context.Context) error {
	if err := errors.Join(m.iperfServers(ctx), m.launch(ctx, farHost, m.program(), toolArg, "echo", ":"+strconv.Itoa(echoPort)), m.launch(ctx, ioHost, m.program(), toolArg, "echo", ":"+strconv.Itoa(echoPort))); err != nil {
		return err
	}
	for _, of := range []struct {
		rate     *float64
		what     string
		from, to int
		more     []string
	}{
		{&m.net.nic, "from a client to the I/O host", firstClient, ioHost, nil},
		{&m.net.up, "from the I/O host to the remote, 8 streams", ioHost, farHost, []string{"-P", "8"}},
		{&m.net.down, "from the remote to the I/O host, 8 streams", ioHost, farHost, []string{"-P", "8", "-R"}},
		{&m.net.stream, "the same to the remote, 1 stream", ioHost, farHost, nil},
	} {
		var err error
		if *of.rate, err = m.iperf(ctx, of.from, of.to, iperfPort, m.iperfSeconds, of.more...); err != nil {
			return err
		}
		if err := report(Row{"iperf3 " + of.what, mbit(*of.rate), "–", "–"}); err != nil {
			return err
		}
	}
	var err error
	if m.net.roundTrip, err = m.rtt(ctx, ioHost, farHost, 1); err != nil {
		return err
	}
	return report(Row{"round trip from the I/O host to the remote (load " + load() + ")", round(m.net.roundTrip), "–", "–"})
}

// rtt is the median time in which so many bytes come back from another host.
func (m *measurement) rtt(ctx context.Context, from, to, bytes int) (d time.Duration, err error) {
	out, err := m.until(ctx, func() (string, error) {
		return m.on(ctx, from, m.program(), toolArg, "rtt", m.addr(to, echoPort), strconv.Itoa(bytes), "20")
	})
	if err == nil {
		err = json.Unmarshal([]byte(out), &d)
	}
	return d, err
}

// scenario gives those of a number of clients.
func (m *measurement) scenario(clients int) (write, cold, mixed scenario) {
	same := scenario{clients: clients, file: burstFile, bursts: 1, depth: burstDepth, room: wideRoom, streams: 2, upstream: 1}
	write, cold, mixed = same, same, same
	write.name, write.write = "write burst into an empty buffer", m.sizes.burst
	cold.name, cold.read = "cold read", m.sizes.burst
	mixed.name, mixed.room, mixed.bursts, mixed.every = "mixed with evictions", narrowRoom, 2, 2*time.Second
	mixed.read, mixed.write = m.sizes.burst/2, narrowRoom/4*3
	return write, cold, mixed
}

// wideJob starts the job with a large buffer, once.
func (m *measurement) wideJob(ctx context.Context) (*job, error) {
	if m.wide != nil {
		return m.wide, nil
	}
	far := m.path("far", "wide")
	if err := m.coldFiles(far); err != nil {
		return nil, err
	}
	var err error
	m.wide, err = m.start(ctx, "wide", far, fmt.Sprintf("remote: 'far:%s', disk: %dM", far, wideRoom>>20))
	return m.wide, err
}

// scenarios predicts and measures six of them. What was measured in one is not used for any.
func (m *measurement) scenarios(ctx context.Context) error {
	j, err := m.wideJob(ctx)
	if err != nil {
		return err
	}
	if m.net.request, err = m.requestTime(ctx, j); err != nil {
		return err
	}
	if err := report(Row{"time that a file of 4 KiB takes to be drained, beside the round trip", round(m.net.request), "–", "–"}); err != nil {
		return err
	}
	for _, n := range []int{2, clients} {
		write, cold, _ := m.scenario(n)
		for _, s := range []scenario{write, cold} {
			d, err := m.compare(ctx, j, s)
			if err != nil {
				return err
			}
			if n == clients && s.write > 0 {
				m.burst = d
			}
		}
	}
	for _, n := range []int{2, clients} {
		_, _, mixed := m.scenario(n)
		name := fmt.Sprintf("narrow%d", n)
		far := m.path("far", name)
		if err := storeAll(far, mixed); err != nil {
			return err
		}
		j, err := m.start(ctx, name, far, fmt.Sprintf("remote: 'far:%s', disk: %dM", far, narrowRoom>>20))
		if err != nil {
			return err
		}
		if _, err := m.compare(ctx, j, mixed); err != nil {
			return err
		}
		if err := j.end(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s scenario) prefix() string {
	return fmt.Sprintf("s%d-%d-%d", s.clients, s.read>>20, s.write>>20)
}

// storeAll has the remote have what a scenario reads.
func storeAll(far string, s scenario) error {
	for _, f := range s.plan(s.prefix()).Phases {
		if err := store(far, f.Read, s.file); err != nil {
			return err
		}
	}
	return nil
}

// compare predicts a scenario, and then measures it.
func (m *measurement) compare(ctx context.Context, j *job, s scenario) (done, error) {
	want, err := s.predict(m.net, ctx.Err)
	if err != nil {
		return done{}, err
	}
	d, err := j.carryOut(ctx, s.plan(s.prefix()))
	if err != nil {
		return d, err
	}
	for _, r := range s.rows(s.measured(d), want) {
		if err := report(r); err != nil {
			return d, err
		}
	}
	return d, nil
}

// requestTime is what the drain of a small file takes, beside the round trip and its bytes.
func (m *measurement) requestTime(ctx context.Context, j *job) (time.Duration, error) {
	const n = 10
	d, err := j.carryOut(ctx, plan{Clients: 1, Depth: 1, Size: smallFile, Phases: []phase{{Write: files("request", n)}}})
	if err != nil {
		return 0, err
	}
	return beside(d.drained.Sub(d.begun)/n, m.net), nil
}

// beside is what the time of a small file has beside the round trip and its bytes.
func beside(took time.Duration, m network) time.Duration {
	return max(0, took-m.roundTrip-time.Duration(smallFile/m.up*float64(time.Second)))
}

func mbit(bytesPerSecond float64) string { return fmt.Sprintf("%.1f Mbit/s", bytesPerSecond*8/1e6) }

func round(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// ratio divides two figures of one run.
func ratio(measured, other float64) string {
	r := measured / other
	if math.IsNaN(r) || math.IsInf(r, 0) {
		return "–"
	}
	return fmt.Sprintf("%.3g", r)
}
