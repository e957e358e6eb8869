// Command bench measures what BEE costs against its peers, as ratios within
// one run, and writes a table in Markdown. `make bench` runs it, and then the
// studies of `bee bench` that measure the rest. Steps are here for what no study does:
// small starts the peers by their own command lines; vm compares images of two sizes,
// stock and machine-image boot a guest that is not BEE's, and template guests that have to boot; volumes reads
// over NFS by fio; network joins guests by QEMU's stream too, and has iperf3 and rings.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// bench is one run of the measurements.
type bench struct {
	bee, dir string
	env      []string
	accel    string      // of the virtual machines here, once it is known
	many     int         // active runs
	rows     [][4]string // what, measured, against, ratio
}

func main() {
	b := &bench{}
	quick := flag.Bool("quick", false, "fewer rounds and networks, and no large image")
	only := flag.String("only", "", "`STEPS` to run, with commas: small, launch, memory, rdma, vm, stock, template, eight, volumes, network, frames, pull, images, records, cases, analysis, active, slots, moves, burst, clouds, machine-image")
	flag.IntVar(&b.many, "active", 1000, "`runs` that are active at once, in the step of that name")
	flag.StringVar(&b.bee, "bee", "bin/bee", "the binary to measure")
	flag.Parse()
	if err := b.run(*quick, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) run(quick bool, only string) error {
	var err error
	if b.bee, err = filepath.Abs(b.bee); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("/var/tmp", "bee-bench-"); err != nil {
		return err
	}
	defer func() {
		exec.Command("umount", b.dir+"/podman/overlay").Run() //nolint:errcheck // podman leaves it mounted, if it came to that
		exec.Command("rm", "-rf", b.dir).Run()                //nolint:errcheck // a temporary directory
	}()
	b.env = append(os.Environ(), "USER="+strconv.Itoa(os.Getuid()), "BEE_STATE="+b.dir+"/state", "BEE_SCRATCH="+b.dir+"/scratch")
	rounds := 30
	if quick {
		rounds = 8
	}
	if err := b.prepare(); err != nil {
		return err
	}
	guests, images := guestBench{b}, imageBench{b}
	fmt.Println("| what | measured | against | ratio |\n|---|---|---|---|")
	for _, step := range []struct {
		name string
		do   func(int) error
	}{{"small", b.small}, {"launch", b.launch}, {"memory", b.memory}, {"rdma", b.rdma}, {"vm", guests.guestly(guests.vm)}, {"stock", guests.guestly(guests.stock)}, {"template", guests.guestly(guests.template)}, {"eight", guests.guestly(guests.eight)}, {"volumes", guests.guestly(guests.volumes)}, {"network", guests.guestly(guests.network)}, {"frames", b.frames}, {"pull", images.pull}, {"images", images.images}, {"records", b.records}, {"cases", b.cases}, {"analysis", b.analysis}, {"active", b.active}, {"slots", b.slots}, {"moves", b.moves}, {"burst", b.burst}, {"clouds", b.clouds}, {"machine-image", guests.guestly(guests.machineImage)}} {
		wanted := only == "" && (!quick || step.name != "pull" && step.name != "images" && step.name != "active" && step.name != "slots") || slices.Contains(strings.Split(only, ","), step.name)
		if !wanted {
			continue
		}
		if err := step.do(rounds); err != nil {
			return err
		}
		b.print()
	}
	return nil
}

// print writes the rows that there are: the whole takes long, and so do some steps.
func (b *bench) print() {
	for _, r := range b.rows {
		fmt.Printf("| %s | %s | %s | %s |\n", r[0], r[1], r[2], r[3])
	}
	b.rows = nil
}

func (b *bench) row(what string, measured time.Duration, against string, other time.Duration) {
	ratio := "–"
	if other > 0 {
		ratio = fmt.Sprintf("%.2f", float64(measured)/float64(other))
		against += " " + round(other)
	}
	b.rows = append(b.rows, [4]string{what, round(measured), against, ratio})
}

func round(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func (b *bench) command(args ...string) *exec.Cmd {
	c := exec.Command(args[0], args[1:]...)
	c.Env, c.Dir = b.env, b.dir
	return c
}

func (b *bench) do(args ...string) (string, error) {
	out, err := b.command(args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// median times a command several times; the first time is not counted.
func (b *bench) median(rounds int, args ...string) (time.Duration, error) {
	var times []time.Duration
	for i := range rounds + 1 {
		begun := time.Now()
		if _, err := b.do(args...); err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, time.Since(begun))
		}
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	return times[len(times)/2], nil
}

func (b *bench) write(name, text string) error {
	return os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644)
}

// prepare makes what several measurements use.
func (b *bench) prepare() error {
	return errors.Join(b.busybox(),
		b.write("sleep.yaml", "name: sleeper\nimage: docker-archive:busybox.tar\nrun: [sleep, \"600\"]\n"),
		b.write("apps.yaml", "name: apps\nbuild: {debian: bookworm, slim: true, packages: [gromacs, lammps, hpcc, openmpi-bin, python3-mpi4py]}\nrun: [\"true\"]\n"))
}

// until repeats a command until it succeeds, and gives what it printed then.
func (b *bench) until(args ...string) (string, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		out, err := b.do(args...)
		if err == nil || time.Now().After(deadline) {
			return out, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// memory reads the resident set of a node that waits.
func (b *bench) memory(int) error {
	if _, err := b.do(b.bee, "run", "-q", "-d", "sleep.yaml"); err != nil {
		return err
	}
	defer b.do(b.bee, "stop", "--all") //nolint:errcheck // the directory goes anyway
	if _, err := b.until(b.bee, "exec", "sleeper", "--", "true"); err != nil {
		return err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		environ, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if !strings.HasSuffix(string(line), "\x00node\x00") || !strings.Contains(string(environ), b.dir) {
			continue
		}
		status, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			return err
		}
		for _, l := range strings.Split(string(status), "\n") {
			if strings.HasPrefix(l, "VmRSS") || strings.HasPrefix(l, "RssAnon") {
				f := strings.Fields(l)
				b.rows = append(b.rows, [4]string{"memory of one idle `bee node`, " + strings.TrimSuffix(f[0], ":"), f[1] + " kB", "20 MB", "–"})
			}
		}
		return nil
	}
	return errors.New("no idle node found")
}

func (b *bench) once(args ...string) (time.Duration, error) {
	begun := time.Now()
	_, err := b.do(args...)
	return time.Since(begun), err
}
