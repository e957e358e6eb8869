package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// volume is something to be moved: files of one size.
type volume struct {
	what  string
	files int
	size  int64 // of each
	fill  func(*rand.ChaCha8, []byte)
}

const pageSize = 4096

// noise is what nothing can compress.
func noise(r *rand.ChaCha8, b []byte) { r.Read(b) } //nolint:errcheck // it cannot fail

// table is what applications write as text: columns of numbers.
func table(r *rand.ChaCha8, b []byte) {
	line := make([]byte, 0, 64)
	for at := 0; at < len(b); at += copy(b[at:], line) {
		x := float64(r.Uint64()%1e6) / 1e6
		line = fmt.Appendf(line[:0], "%8d %12.6f %12.6f %12.6f\n", at, x, math.Sin(x), math.Cos(x))
	}
}

func (v volume) total() int64 { return int64(v.files) * v.size }

func (v volume) path(dir string, i int) string {
	return filepath.Join(dir, fmt.Sprintf("d%02d", i%64), fmt.Sprintf("f%d", i))
}

func (v volume) make(dir string, r *rand.ChaCha8) error {
	block := make([]byte, min(v.size, 1<<20))
	for i := range v.files {
		path := v.path(dir, i)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		w := bufio.NewWriter(f)
		for at := int64(0); at < v.size && err == nil; at += int64(len(block)) {
			v.fill(r, block)
			_, err = w.Write(block)
		}
		if err == nil {
			err = w.Flush()
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// change writes one page in a hundred again, anywhere.
func (v volume) change(dir string, r *rand.ChaCha8) error {
	page, pages := make([]byte, pageSize), v.size/pageSize
	for range max(v.total()/pageSize/100, 1) {
		v.fill(r, page)
		f, err := os.OpenFile(v.path(dir, int(r.Uint64()%uint64(v.files))), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(page, int64(r.Uint64()%uint64(pages))*pageSize)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// moves brings volumes home by ssh, for the first time and after 1 % of their pages
// have changed, against rsync over an ssh that has its connection already, too, and
// against what ssh carries of the same bytes with nothing done to them.
func (b *bench) moves(rounds int) error {
	scale := int64(1)
	if rounds < 30 {
		scale = 4
	}
	ssh, stop, err := b.sshHosts()
	if err != nil {
		return err
	}
	defer stop()
	big, small := (1<<30)/scale, (192<<20)/scale
	many := int(20_000 / scale)
	for _, c := range []struct {
		host string
		volume
	}{
		{"near", volume{fmt.Sprintf("a file of %d MiB", big>>20), 1, big, noise}},
		{"near", volume{fmt.Sprintf("a file of %d MiB of text", big>>21), 1, big / 2, table}},
		{"near", volume{fmt.Sprintf("%d files of 4 KiB", many), many, pageSize, noise}},
		{"far", volume{fmt.Sprintf("a file of %d MiB", big>>20), 1, big, noise}},
		{"far", volume{fmt.Sprintf("a file of %d MiB of text", small>>20), 1, small, table}},
		{"far", volume{fmt.Sprintf("%d files of 4 KiB", many), many, pageSize, noise}},
		{"long", volume{fmt.Sprintf("a file of %d MiB", big>>20), 1, big, noise}},
	} {
		if err := b.move(ssh, c.host, c.volume, max(rounds/10, 1)); err != nil {
			return fmt.Errorf("%s, %s: %w", c.host, c.what, err)
		}
		b.print()
	}
	return nil
}

func (b *bench) move(ssh, host string, v volume, rounds int) error {
	ctx, r := context.Background(), rand.NewChaCha8([32]byte{})
	here := filepath.Join(b.dir, "moves", fmt.Sprint(host, v.files))
	if v.files == 1 { // many ones stay: see below
		defer os.RemoveAll(here)
	}
	there, rsynced := filepath.Join(here, "there"), filepath.Join(here, "rsync")
	if err := v.make(there, r); err != nil {
		return err
	}
	site := spec.Site{Name: "bench", Provider: "ssh", Hosts: spec.Hosts{Patterns: []string{host}}, Scratch: filepath.Join(b.dir, "far")}
	path := os.Getenv("PATH")
	os.Setenv("PATH", filepath.Dir(ssh)+":"+path) //nolint:errcheck // it cannot fail
	defer os.Setenv("PATH", path)                 //nolint:errcheck // it cannot fail
	p, err := catalog.Provider(site, catalog.Options{Binary: b.bee})
	if err != nil {
		return err
	}
	l, err := p.Acquire(ctx, driver.Request{Owner: core.Owner{User: "bench", Run: "moves", Attempt: 1}, Nodes: 1})
	if err != nil {
		return err
	}
	defer l.Release(ctx)
	shared := ssh + " -o ControlMaster=auto -o ControlPath=" + filepath.Join(b.dir, "ssh", host) + " -o ControlPersist=60"
	if _, err := b.do("sh", "-c", shared+" "+host+" true </dev/null >/dev/null 2>&1"); err != nil {
		return err
	}
	defer b.do("sh", "-c", shared+" -O exit "+host) //nolint:errcheck // it ends by itself, too
	copies, travelled := 0, int64(0)
	fetch := func(before string) func() error {
		return func() error {
			copies++
			return l.Fetch(ctx, driver.Transfer{Remote: there, Local: filepath.Join(here, fmt.Sprint(copies)), Again: true, Before: before, Progress: func(n int64) { travelled = n }})
		}
	}
	run := func(args ...string) func() error {
		return func() error { _, err := b.do(args...); return err }
	}
	rsync := run("rsync", "-a", "-e", shared, host+":"+there+"/", rsynced)
	bare := run("sh", "-c", ssh+" "+host+" 'find "+there+" -type f -exec cat {} +' > /dev/null")
	times := map[string][]time.Duration{}
	share := 0.0
	iperf, stop, err := b.iperf(host, v.total())
	if err != nil {
		return err
	}
	defer stop()
	for range rounds {
		took, err := iperf()
		if err != nil {
			return err
		}
		times["iperf3"] = append(times["iperf3"], took)
		for _, s := range []struct {
			name string
			do   func() error
		}{{"bare", bare}, {"first", fetch("")}, {"rsync first", rsync}} {
			if err := clocked(times, s.name, s.do); err != nil {
				return err
			}
		}
		before := filepath.Join(here, fmt.Sprint(copies))
		if err := v.change(there, r); err != nil {
			return err
		}
		if err := clocked(times, "again", fetch(before)); err != nil {
			return err
		}
		share = float64(travelled) / float64(v.total())
		if err := clocked(times, "rsync again", rsync); err != nil {
			return err
		}
		if _, err := b.do("diff", "-r", there, filepath.Join(here, fmt.Sprint(copies))); err != nil {
			return err
		}
		// An ext4 without a journal takes longer to make files for minutes after others
		// have been removed: many ones stay until all is measured.
		if v.files > 1 {
			err = os.Rename(rsynced, rsynced+fmt.Sprint(copies))
		} else {
			_, err = b.do("rm", "-rf", before, filepath.Join(here, fmt.Sprint(copies)), rsynced)
		}
		if err != nil {
			return err
		}
	}
	m := func(name string) time.Duration {
		slices.Sort(times[name])
		return times[name][len(times[name])/2]
	}
	what := fmt.Sprintf("volume brought home by ssh %s, %s", map[string]string{"near": "on loopback", "far": "over an emulated WAN", "long": "over an emulated long line"}[host], v.what)
	load, _ := os.ReadFile("/proc/loadavg")
	b.row(what+" (load "+strings.Fields(string(load))[0]+")", m("first"), "rsync -a", m("rsync first"))
	b.row("the same", m("first"), "ssh HOST cat", m("bare"))
	b.row("the same", m("first"), "iperf3, at its rate", m("iperf3"))
	b.row(fmt.Sprintf("the same after 1 %% of its pages changed, with %.1f %% of the bytes", share*100), m("again"), "rsync -a", m("rsync again"))
	return nil
}

// iperf gives what reports how long iperf3 would take to carry so many bytes from a host,
// by the same way and by one connection: at the rate that it finds in three seconds, the
// one before them left out. What it has sent of a given number is not all there when it
// ends.
func (b *bench) iperf(host string, bytes int64) (run func() (time.Duration, error), stop func(), err error) {
	server, err := freeAddress()
	if err != nil {
		return nil, nil, err
	}
	stopServer, err := b.serve("iperf3", "-s", "-B", "127.0.0.1", "-p", fmt.Sprint(server.Port))
	if err != nil {
		return nil, nil, err
	}
	port, closer := server.Port, func() {}
	if w, is := routes()[host]; is {
		l, err := w.listen(server.String())
		if err != nil {
			stopServer()
			return nil, nil, err
		}
		port, closer = l.Addr().(*net.TCPAddr).Port, func() { l.Close() }
	}
	stop = func() {
		closer()
		stopServer()
	}
	run = func() (time.Duration, error) {
		// It is not there at once, nor when the last one's end is still on its way.
		out, err := b.until("iperf3", "-c", "127.0.0.1", "-p", fmt.Sprint(port), "-R", "-J", "-O", "1", "-t", "3")
		if err != nil {
			return 0, err
		}
		var report struct {
			End struct {
				Received struct {
					BitsPerSecond float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			}
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			return 0, fmt.Errorf("read what iperf3 found: %w", err)
		}
		return time.Duration(float64(bytes) * 8 / report.End.Received.BitsPerSecond * float64(time.Second)), nil
	}
	return run, stop, nil
}

// clocked adds the time that something takes, once nothing is left to be written to
// the disk from before.
func clocked(times map[string][]time.Duration, name string, do func() error) error {
	runtime.GC()
	syscall.Sync()
	begun := time.Now()
	err := do()
	times[name] = append(times[name], time.Since(begun))
	return err
}
