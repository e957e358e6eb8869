package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed programs/mpiio.c
var mpiio string

// mebibytes is what each process writes and reads by MPI-IO: NFS between emulated
// guests takes minutes for more.
func mebibytes(rounds int) int {
	if rounds < 30 {
		return 256
	}
	return 1024
}

// fio are the patterns that one host's fio tries, by name.
func fio() []struct{ name, options string } {
	return []struct{ name, options string }{
		{"written in pieces of 1 MiB, and synced", "--rw=write --bs=1m --end_fsync=1"},
		{"read in pieces of 1 MiB", "--rw=read --bs=1m"},
		{"written in pieces of 4 KiB, anywhere", "--rw=randwrite --bs=4k --runtime=5 --time_based"},
		{"read in pieces of 4 KiB, anywhere", "--rw=randread --bs=4k --runtime=5 --time_based"},
	}
}

// volumes reads and writes files in the hosts' directory without virtual
// machines, and in each volume of virtual machines: one process by fio, and
// two of two hosts by MPI-IO, each reading what the other wrote.
func (g guestBench) volumes(rounds int) error {
	if err := g.b.write("mpiio.c", mpiio); err != nil {
		return err
	}
	if err := g.b.write("two.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n"); err != nil {
		return err
	}
	image := "build:\n  debian: bookworm\n  slim: true\n  packages: [openmpi-bin, libopenmpi-dev, gcc, libc6-dev, fio]\n" +
		"  copy: [{from: " + filepath.Join(g.b.dir, "mpiio.c") + ", to: /src/mpiio.c}]\n  run: [mpicc -O2 /src/mpiio.c -o /usr/local/bin/mpiio]\n"
	run := "run: |\n  set -e\n"
	for _, f := range fio() { // on the host that has no data image itself
		run += "  /.bee/rsh lab-1 'cd /data; exec fio --minimal --name=f --filename=fio --ioengine=psync --size=256m " + f.options + "'\n"
	}
	run += fmt.Sprintf("  rm fio\n  for i in $(seq %d); do mpirun mpiio f %d; done\n", max(rounds/10, 1), mebibytes(rounds))
	var plain []float64
	for _, c := range []struct{ name, keys string }{
		{"the hosts' directory, without virtual machines", "volume: /data\n"},
		{"`virtio` by 9p", "vm: {cpus: 1, memory: 1G}\nvolume: {path: /data, kind: virtio}\n"},
		{"`virtio` by virtiofs", "vm: {cpus: 1, memory: 1G, share: virtiofs}\nvolume: {path: /data, kind: virtio}\n"},
		{"`dataimage`, by NFS", "vm: {cpus: 1, memory: 1G}\nvolume: {path: /data, kind: dataimage, size: 4G}\n"},
	} {
		if err := g.b.write("io.yaml", "name: io\n"+image+"nodes: 2\nranks_per_node: 1\nworkdir: /data\n"+c.keys+run); err != nil {
			return err
		}
		out, err := g.b.do(g.b.bee, "--sites", "two.yaml", "run", "-q", "io.yaml")
		if err != nil {
			return err
		}
		speeds, err := volumeSpeeds(out, mebibytes(rounds))
		if err != nil {
			return err
		}
		for i, s := range speeds {
			row := [4]string{c.name + ": " + s.what, fmt.Sprintf("%.0f MB/s", s.rate), "–", "–"}
			if plain != nil {
				row[2], row[3] = fmt.Sprintf("the hosts' directory %.0f MB/s", plain[i]), fmt.Sprintf("%.3f", s.rate/plain[i])
			}
			g.b.rows = append(g.b.rows, row)
		}
		if plain == nil {
			for _, s := range speeds {
				plain = append(plain, s.rate)
			}
		}
	}
	return nil
}

// speed is a rate in MB/s.
type speed struct {
	what string
	rate float64
}

// volumeSpeeds reads what fio and mpiio printed, of which the medians count.
func volumeSpeeds(out string, mebibytes int) (all []speed, err error) {
	var parallel [2][]float64
	for line := range strings.Lines(out) {
		if f := strings.Split(line, ";"); len(f) > fioWritten && len(all) < len(fio()) {
			read, err1 := strconv.ParseFloat(f[fioRead], 64)
			written, err2 := strconv.ParseFloat(f[fioWritten], 64)
			if err1 != nil || err2 != nil {
				return nil, fmt.Errorf("fio said %q", line)
			}
			all = append(all, speed{"fio, " + fio()[len(all)].name, (read + written) * 1024 / 1e6})
		}
		var w, r float64
		if n, _ := fmt.Sscanf(line, "write %f read %f", &w, &r); n == 2 {
			parallel[0], parallel[1] = append(parallel[0], w), append(parallel[1], r)
		}
	}
	if len(all) < len(fio()) || len(parallel[0]) == 0 {
		return nil, fmt.Errorf("fio and mpiio said %q", out)
	}
	for i, what := range []string{"written and synced", "read"} {
		slices.Sort(parallel[i])
		all = append(all, speed{fmt.Sprintf("MPI-IO, %d MiB from each of 2 hosts, %s", mebibytes, what), parallel[i][len(parallel[i])/2]})
	}
	return all, nil
}

// Places of the rates, in KiB/s, in what fio says with --minimal (its manual,
// "Terse output").
const (
	fioRead    = 6
	fioWritten = 47
)
