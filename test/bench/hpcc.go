package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// hpcc runs HPCC inside and outside, two ranks on one host, with the same
// Debian packages.
func (b *bench) hpcc(rounds int) error {
	// The example's problem takes a blink, in which nothing can be measured.
	if err := b.hpccInput(3000); err != nil {
		return err
	}
	if err := b.write("hpcc.yaml", `name: hpcc
build: {debian: bookworm, slim: true, packages: [gromacs, lammps, hpcc, openmpi-bin, python3-mpi4py]}
ranks_per_node: 2
env: {OMP_NUM_THREADS: "1", OPENBLAS_NUM_THREADS: "1"}
inputs: [{from: hpccinf.txt, to: /work/hpccinf.txt}]
workdir: /work
run: mpirun hpcc
outputs: [{from: /work/hpccoutf.txt, to: inside}]
`); err != nil {
		return err
	}
	return b.byTurns(rounds, turns{
		what: "HPCC", file: "hpccoutf.txt", parse: hpccFigures,
		figures: []figure{
			{name: "HPL_Tflops", unit: "Tflop/s"},
			{name: "StarSTREAM_Triad", unit: "GB/s"},
			{name: "MPIRandomAccess_GUPs", unit: "GUP/s"},
			{name: "MaxPingPongLatency_usec", unit: "µs"},
			{name: "MinPingPongBandwidth_GBytes", unit: "GB/s"},
			{name: "NaturallyOrderedRingBandwidth_GBytes", unit: "GB/s"},
		},
		inside: []string{b.bee, "run", "-q", "hpcc.yaml"},
		native: []string{"mpirun", "-n", "2", "hpcc"},
	})
}

// hpccInput writes the input of the example, with a problem of another size.
func (b *bench) hpccInput(size int) error {
	input, err := os.ReadFile("examples/hpcc/input/hpccinf.txt")
	if err != nil {
		return err
	}
	return b.write("hpccinf.txt", strings.Replace(string(input), "1000         Ns", fmt.Sprintf("%-12d Ns", size), 1))
}

// summaryLine is one figure of HPCC's summary.
var summaryLine = regexp.MustCompile(`(?m)^(\w+)=([-+.\deE]+)$`)

func hpccFigures(text string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, m := range summaryLine.FindAllStringSubmatch(text, -1) {
		x, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		out[m[1]] = x
	}
	return out, nil
}
