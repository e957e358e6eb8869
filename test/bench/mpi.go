package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// mpiImage gives an image with an empty MPI program in C, so that its launch
// is measured and not the start of an interpreter.
func mpiImage(packages string) string {
	return `build:
  debian: bookworm
  slim: true
  packages: [` + packages + `, gcc, libc6-dev]
  run: ["printf '#include <mpi.h>\nint main(void) { return MPI_Init(0, 0) || MPI_Finalize(); }\n' | mpicc -x c - -o /usr/local/bin/empty"]
`
}

const openMPI = "openmpi-bin, libopenmpi-dev"

// launch times an MPI program that only starts, over more and more hosts.
func (b *bench) launch(rounds int) error {
	for _, family := range []struct{ name, image, run string }{
		{"Open MPI", mpiImage(openMPI), "mpirun --oversubscribe empty"},
		{"MPICH", mpiImage("mpich, libmpich-dev"), "mpirun empty"},
	} {
		if err := b.write("launch.yaml", "name: launch\n"+family.image+"ranks_per_node: 1\nrun: "+family.run+"\n"); err != nil {
			return err
		}
		var one time.Duration
		for _, hosts := range []int{1, 2, 8, 32, 64} {
			if err := b.write("lab.yaml", fmt.Sprintf("sites: [{name: lab, provider: local, hosts: %d}]\n", hosts)); err != nil {
				return err
			}
			took, err := b.median(max(rounds/6, 1), b.bee, "--sites", "lab.yaml", "run", "-q", "--nodes", strconv.Itoa(hosts), "launch.yaml")
			if err != nil {
				return err
			}
			if hosts == 1 {
				one = took
				b.row("`mpirun` ("+family.name+") of an empty program over 1 emulated host", took, "", 0)
				continue
			}
			b.row(fmt.Sprintf("the same over %d", hosts), took, "1 host", one)
		}
	}
	return nil
}

// netpipeFigures reads NetPIPE's table: bytes, Mbit/s, seconds one way.
func netpipeFigures(text string) (map[string]float64, error) {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		var size int
		var rate, seconds float64
		if _, err := fmt.Sscan(line, &size, &rate, &seconds); err != nil {
			return nil, fmt.Errorf("NetPIPE's line %q: %w", line, err)
		}
		switch size {
		case 8:
			out["latency of 8 bytes"] = seconds * 1e6
		case 64 << 10:
			out["bandwidth of 64 KiB"] = rate / 1000
		}
		out["best bandwidth"] = max(out["best bandwidth"], rate/1000)
	}
	return out, nil
}
