package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// hpccFigures are those of HPCC's summary that are shown, with their units.
// More is better, except for latency.
var hpccFigures = [][2]string{ //nolint:gochecknoglobals // a table
	{"HPL_Tflops", "Tflop/s"}, {"StarSTREAM_Triad", "GB/s"}, {"MPIRandomAccess_GUPs", "GUP/s"},
	{"MaxPingPongLatency_usec", "µs"}, {"MinPingPongBandwidth_GBytes", "GB/s"}, {"NaturallyOrderedRingBandwidth_GBytes", "GB/s"},
}

// hpcc runs HPCC by turns on the machine itself and in a container of bee's,
// two ranks on one host, with the same Debian packages.
func (b *bench) hpcc(rounds int) error {
	input, err := os.ReadFile("examples/hpcc/input/hpccinf.txt")
	if err != nil {
		return err
	}
	// The example's problem takes a blink, in which nothing can be measured.
	larger := strings.Replace(string(input), "1000         Ns", "4000         Ns", 1)
	if err := b.write("hpccinf.txt", larger); err != nil {
		return err
	}
	if err := b.write("hpcc.yaml", `name: hpcc
build: {debian: bookworm, packages: [gromacs, lammps, hpcc, openmpi-bin, python3-mpi4py]}
ranks_per_node: 2
env: {OMP_NUM_THREADS: "1", OPENBLAS_NUM_THREADS: "1"}
inputs: [{from: hpccinf.txt, to: /work/hpccinf.txt}]
workdir: /work
run: mpirun hpcc
outputs: [{from: /work/hpccoutf.txt, to: inside}]
`); err != nil {
		return err
	}
	native := []string{"env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun", "-n", "2", "hpcc"}
	inside := []string{b.bee, "run", "-q", "hpcc.yaml"}
	if _, err := b.do(inside...); err != nil { // it may build the image
		return err
	}
	best := map[string][2]float64{}
	for range max(rounds/10, 3) {
		for i, argv := range [][]string{inside, native} {
			file := filepath.Join(b.dir, "inside", "hpccoutf.txt")
			if i == 1 {
				file = filepath.Join(b.dir, "hpccoutf.txt")
			}
			os.Remove(file) //nolint:errcheck // HPCC appends
			if _, err := b.do(argv...); err != nil {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := takeFigures(best, i, string(text)); err != nil {
				return err
			}
		}
	}
	for _, f := range hpccFigures {
		pair := best[f[0]]
		b.rows = append(b.rows, [4]string{"HPCC, two ranks on one host: " + f[0], fmt.Sprintf("%.4g %s", pair[0], f[1]), fmt.Sprintf("without bee %.4g", pair[1]), fmt.Sprintf("%.3f", pair[0]/pair[1])})
	}
	return nil
}

// takeFigures keeps the best of each figure: what else the machine does only
// makes them worse.
func takeFigures(best map[string][2]float64, side int, text string) error {
	for _, f := range hpccFigures {
		m := regexp.MustCompile(`(?m)^` + f[0] + `=(\S+)`).FindStringSubmatch(text)
		if m == nil {
			return fmt.Errorf("HPCC gives no %s", f[0])
		}
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return err
		}
		pair := best[f[0]]
		if pair[side] == 0 || (f[1] == "µs") == (x < pair[side]) {
			pair[side] = x
		}
		best[f[0]] = pair
	}
	return nil
}
