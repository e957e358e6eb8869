package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed programs/mpiio.c
var mpiio string

// mebibytes is what each process writes and reads.
const mebibytes = 64

// volumes writes and reads a file by MPI-IO over two hosts, each process
// reading what the other wrote: in the hosts' directory without virtual
// machines, and in each volume of virtual machines.
func (b *bench) volumes(rounds int) error {
	if err := b.write("mpiio.c", mpiio); err != nil {
		return err
	}
	if err := b.write("two.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n"); err != nil {
		return err
	}
	image := "build:\n  debian: bookworm\n  packages: [openmpi-bin, libopenmpi-dev, gcc, libc6-dev]\n" +
		"  copy: [{from: " + filepath.Join(b.dir, "mpiio.c") + ", to: /src/mpiio.c}]\n  run: [mpicc -O2 /src/mpiio.c -o /usr/local/bin/mpiio]\n"
	run := fmt.Sprintf("run: for i in $(seq %d); do mpirun mpiio f %d; done\n", max(rounds/8, 3), mebibytes)
	var plain [2]float64
	for _, c := range []struct{ name, keys string }{
		{"the hosts' directory, without virtual machines", "volume: /data\n"},
		{"`virtio` (9p) in two guests", "vm: {cpus: 1, memory: 1G}\nvolume: {path: /data, kind: virtio}\n"},
		{"`dataimage` (NFS, disk in guest 0) in two guests", "vm: {cpus: 1, memory: 1G}\nvolume: {path: /data, kind: dataimage, size: 2G}\n"},
	} {
		if err := b.write("io.yaml", "name: io\n"+image+"nodes: 2\nranks_per_node: 1\nworkdir: /data\n"+c.keys+run); err != nil {
			return err
		}
		out, err := b.do(b.bee, "--sites", "two.yaml", "run", "-q", "io.yaml")
		if err != nil {
			return err
		}
		speed, err := medianSpeeds(out)
		if err != nil {
			return err
		}
		for i, what := range []string{"write and sync", "read"} {
			row := [4]string{fmt.Sprintf("MPI-IO, %d MiB from each of 2 hosts, %s: %s", mebibytes, what, c.name), fmt.Sprintf("%.0f MB/s", speed[i]), "–", "–"}
			if plain[i] > 0 {
				row[2], row[3] = fmt.Sprintf("the hosts' directory %.0f MB/s", plain[i]), fmt.Sprintf("%.3f", speed[i]/plain[i])
			}
			b.rows = append(b.rows, row)
		}
		if plain[0] == 0 {
			plain = speed
		}
	}
	return nil
}

// medianSpeeds reads the lines of mpiio: MB/s written, and read.
func medianSpeeds(out string) (speeds [2]float64, err error) {
	var all [2][]float64
	for line := range strings.Lines(out) {
		var w, r float64
		if n, _ := fmt.Sscanf(line, "write %f read %f", &w, &r); n == 2 {
			all[0], all[1] = append(all[0], w), append(all[1], r)
		}
	}
	for i, list := range all {
		if len(list) == 0 {
			return speeds, fmt.Errorf("mpiio said %q", out)
		}
		slices.Sort(list)
		speeds[i] = list[len(list)/2]
	}
	return speeds, nil
}
