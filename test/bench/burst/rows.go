package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// singleName is the one large file that the remote has before.
const singleName = "/work/single-there"

// coldFiles has a remote have what is read from it before the buffer is there.
func (m *measurement) coldFiles(far string) error {
	if err := smallFiles(far, m.sizes.files); err != nil {
		return err
	}
	for _, n := range []int{2, clients} {
		_, cold, _ := m.scenario(n)
		if err := storeAll(far, cold); err != nil {
			return err
		}
	}
	return store(far, []string{singleName}, m.sizes.single)
}

func rateRow(what string, measured float64, against string, other float64) error {
	return report(Row{what, mbit(measured), against + " " + mbit(other), ratio(measured, other)})
}

func timeRow(what string, measured time.Duration, against string, other time.Duration) error {
	return report(Row{what, round(measured), against + " " + round(other), ratio(measured.Seconds(), other.Seconds())})
}

// buffer has four clients write and read what is all in the buffer.
func (m *measurement) buffer(ctx context.Context) error {
	j, err := m.wideJob(ctx)
	if err != nil {
		return err
	}
	write, _, _ := m.scenario(clients)
	p := write.plan(write.prefix())
	if m.burst.begun.IsZero() {
		if m.burst, err = j.carryOut(ctx, p); err != nil {
			return err
		}
	}
	in, err := m.iperfAll(ctx, m.iperfSeconds)
	if err != nil {
		return err
	}
	out, err := m.iperfAll(ctx, m.iperfSeconds, "-R")
	if err != nil {
		return err
	}
	p.Phases = []phase{{Read: p.Phases[0].Write}}
	read, err := j.carryOut(ctx, p)
	if err != nil {
		return err
	}
	wrote := float64(m.sizes.burst)
	if err := errors.Join(
		rateRow("4 clients write, all in the buffer of 1 I/O host, 1 replica", wrote/m.burst.waited.Seconds(), "iperf3, the same hosts", in),
		rateRow("the same read", wrote/read.waited.Seconds(), "iperf3, the same hosts", out)); err != nil {
		return err
	}
	return errors.Join(m.direct(ctx), m.syncs(ctx, j), m.resources(ctx, j))
}

// direct has the clients send what they write in a burst to the far host.
func (m *measurement) direct(ctx context.Context) error {
	name := m.path("direct")
	if err := noise(name, m.sizes.burst/clients); err != nil {
		return err
	}
	defer os.Remove(name)
	if err := m.startBucket(ctx); err != nil {
		return err
	}
	for _, way := range []struct {
		name string
		argv func(i int) []string
	}{
		{"scp", func(i int) []string {
			return []string{"scp", "-q", "-S", m.path("bin", "ssh"), name, fmt.Sprintf("far:%s%d", m.path("far", "direct"), i)}
		}},
		{"S3 SDK", func(i int) []string {
			return []string{m.program(), toolArg, "put", name, fmt.Sprint("direct", i)}
		}},
	} {
		begun := time.Now()
		if _, err := atOnce(func(i int) (float64, error) {
			_, err := m.on(ctx, firstClient+i, way.argv(i)...)
			return 0, err
		}); err != nil {
			return err
		}
		took := time.Since(begun)
		if err := timeRow(fmt.Sprintf("a burst of %d MiB until the job continues, 4 clients, 1 I/O host", m.sizes.burst>>20), m.burst.waited, way.name, took); err != nil {
			return err
		}
	}
	return nil
}

// startBucket starts the server of S3 on the far host, once.
func (m *measurement) startBucket(ctx context.Context) error {
	if _, err := os.Stat(m.path("bucket", bucketName)); err == nil {
		return nil
	}
	if err := m.launch(ctx, farHost, "versitygw", "--port", m.addr(farHost, bucketPort), "--access", bucketKey, "--secret", bucketSecret, "--quiet", "posix", m.path("bucket")); err != nil {
		return err
	}
	_, err := m.until(ctx, func() (string, error) { return m.on(ctx, ioHost, m.program(), toolArg, "put", "", "") })
	return err
}

// syncs compares fsync with a round trip and the disk.
func (m *measurement) syncs(ctx context.Context, j *job) error {
	const n = 100
	var near, disk time.Duration
	if err := j.tool(ctx, 1, &near, "sync", "/work", strconv.Itoa(n)); err != nil {
		return err
	}
	out, err := m.on(ctx, ioHost, m.program(), toolArg, "sync", m.path("scratch"), strconv.Itoa(n))
	if err == nil {
		err = json.Unmarshal([]byte(out), &disk)
	}
	if err != nil {
		return err
	}
	way, err := m.rtt(ctx, firstClient, ioHost, smallFile)
	if err != nil {
		return err
	}
	return timeRow("write and `fsync` of 4 KiB, 1 replica on disk (load "+load()+")", near, "round trip "+round(way)+" + write and `fsync` on that disk", way+disk)
}

// line drains a large file, and reads one that was not read before.
func (m *measurement) line(ctx context.Context) error {
	j, err := m.wideJob(ctx)
	if err != nil {
		return err
	}
	return m.lineOf(ctx, j, "ssh")
}

// bucket is line with a bucket as the remote.
func (m *measurement) bucket(ctx context.Context) error {
	j, err := m.bucketJob(ctx)
	if err != nil {
		return err
	}
	return m.lineOf(ctx, j, "S3")
}

// bucketJob starts the job whose remote is a bucket, once.
func (m *measurement) bucketJob(ctx context.Context) (*job, error) {
	if m.inBucket != nil {
		return m.inBucket, nil
	}
	cold := m.path("cold")
	if err := errors.Join(smallFiles(cold, m.sizes.files), store(cold, []string{singleName}, m.sizes.single), m.upload(ctx, cold, "wide/")); err != nil {
		return nil, err
	}
	var err error
	m.inBucket, err = m.start(ctx, "bucket", m.path("bucket", bucketName, "wide"), fmt.Sprintf("remote: 's3://%s/wide', credentials: send, disk: %dM", bucketName, wideRoom>>20))
	return m.inBucket, err
}

func (m *measurement) lineOf(ctx context.Context, j *job, remote string) error {
	p := plan{Clients: 1, Depth: 1, Size: m.sizes.single, Phases: []phase{{Write: files("single", 1)}}}
	d, err := j.carryOut(ctx, p)
	if err != nil {
		return err
	}
	size := float64(p.Size)
	mib := fmt.Sprintf("%d MiB in one file, %s", p.Size>>20, remote)
	if err := rateRow("drain of "+mib, size/d.drained.Sub(d.ended).Seconds(), "iperf3, 8 streams", m.net.up); err != nil {
		return err
	}
	p.Phases = []phase{{Read: []string{singleName}}}
	if d, err = j.carryOut(ctx, p); err != nil {
		return err
	}
	if err := rateRow("cold read of "+mib, size/d.waited.Seconds(), "iperf3, 8 streams", m.net.down); err != nil {
		return err
	}
	if d, err = j.carryOut(ctx, p); err != nil {
		return err
	}
	near, err := j.iperf(ctx, firstClient, ioHost, iperfPort, m.iperfSeconds, "-R")
	if err != nil {
		return err
	}
	return rateRow("the same read again", size/d.waited.Seconds(), "iperf3, the same hosts", near)
}

// local compares a volume of one host, without limits, with a file system that only passes requests on.
func (m *measurement) local(ctx context.Context) error {
	const base = "/dev/shm/burst" // a tmpfs of this host alone
	if _, err := m.on(ctx, home, "mkdir", "-p", base+"/far", base+"/mnt", base+"/plain", base+"/loop"); err != nil {
		return err
	}
	env := []string{"env", "BEE_STATE=" + base + "/state", m.bee, "volume"}
	bee := func(args ...string) error {
		_, err := m.on(ctx, home, append(env, args...)...)
		return err
	}
	if err := bee("mount", "--disk", "2G", base+"/far", base+"/mnt"); err != nil {
		return err
	}
	written, read, err := m.localRates(ctx, base+"/mnt")
	if err := errors.Join(err, bee("umount", base+"/mnt")); err != nil {
		return err
	}
	if _, err := m.on(ctx, home, "rm", "-rf", base+"/far", base+"/state"); err != nil {
		return err
	}
	if err := m.launch(ctx, home, m.program(), toolArg, "loopback", base+"/plain", base+"/loop"); err != nil {
		return err
	}
	if _, err := m.until(ctx, func() (string, error) { return m.on(ctx, home, "mountpoint", base+"/loop") }); err != nil {
		return err
	}
	loopWritten, loopRead, err := m.localRates(ctx, base+"/loop")
	_, uerr := m.on(ctx, home, "umount", base+"/loop")
	if err := errors.Join(err, uerr); err != nil {
		return err
	}
	const against = "go-fuse's loopback on tmpfs"
	what := fmt.Sprintf("%d MiB on one host without limits, buffer on tmpfs (load %s): ", m.sizes.local>>20, load())
	return errors.Join(rateRow(what+"written", written, against, loopWritten), rateRow(what+"read", read, against, loopRead))
}

// localRates writes and reads files in a directory of the submitting machine.
func (m *measurement) localRates(ctx context.Context, dir string) (written, read float64, err error) {
	p := plan{Clients: 1, Depth: 1, Size: m.sizes.local / 4, At: time.Now().Add(time.Second)}
	for i := range 4 {
		p.Phases = append(p.Phases, phase{})
		p.Phases[0].Write = append(p.Phases[0].Write, fmt.Sprintf("%s/f%d", dir, i))
	}
	p.Phases = []phase{p.Phases[0], {Read: p.Phases[0].Write}}
	name := m.path("meet", "local-"+filepath.Base(dir)+".json")
	raw, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(name, raw, 0o644)
	}
	if err != nil {
		return 0, 0, err
	}
	out, err := m.on(ctx, home, m.program(), toolArg, "work", name, "0")
	if err != nil {
		return 0, 0, err
	}
	var spans []span
	if err := json.Unmarshal([]byte(out), &spans); err != nil {
		return 0, 0, err
	}
	if len(spans) != 2 {
		return 0, 0, fmt.Errorf("it was in %d phases", len(spans))
	}
	rate := func(s span) float64 { return float64(m.sizes.local) / s.Ended.Sub(s.Begun).Seconds() }
	return rate(spans[0]), rate(spans[1]), nil
}
