package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// streamWrapper stands in for QEMU and joins the two guests of a run by a plain
// stream of QEMU's own, in place of the switch: all else is the same.
const streamWrapper = `#!/bin/bash
args=()
for a in "$@"; do
  case $a in
    guest=*-0,*) side=on ;;
    guest=*-1,*) side=off; until [ -S %[1]s ]; do sleep 0.1; done ;;
    dgram,id=net1,*) a=stream,id=net1,server=$side,addr.type=unix,addr.path=%[1]s ;;
  esac
  args+=("$a")
done
exec %[2]s "${args[@]}"
`

// network sends from one guest to another, over each fabric and over a plain
// stream between both hypervisors: TCP by iperf3, MPI by NetPIPE and by the part of
// HPCC that was the benchmark b_eff, in which all nodes send at once, round rings.
// With few rounds only the stream and the switch are compared.
func (g guestBench) network(rounds int) error {
	if err := g.b.hpccInput(200); err != nil { // the rest of HPCC then takes little
		return err
	}
	if err := g.b.write("two.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n"); err != nil {
		return err
	}
	own, err := g.b.do("which", qemu.Program())
	if err != nil {
		return err
	}
	wrapped := filepath.Join(g.b.dir, "wrapped")
	if err := os.Mkdir(wrapped, 0o755); err != nil {
		return err
	}
	if err := core.WriteProgram(filepath.Join(wrapped, qemu.Program()), fmt.Appendf(nil, streamWrapper, filepath.Join(g.b.dir, "stream"), own), 0o755); err != nil {
		return err
	}
	env := g.b.env
	defer func() { g.b.env = env }()
	var plain map[string]float64
	fabrics := []struct{ name, keys string }{
		{"QEMU's stream, a pair", "switch, nic: socket"},
		{"switch", "switch"},
		{"switch, `nic: socket`", "switch, nic: socket"},
		{"star", "star"},
		{"tree", "tree"},
		{"multicast", "multicast"},
	}
	if rounds < 30 {
		fabrics = fabrics[:2]
	}
	for _, c := range fabrics {
		g.b.env = env
		if plain == nil {
			g.b.env = append(env, "PATH="+wrapped+":"+os.Getenv("PATH"))
		}
		if err := g.b.write("guests.yaml", "name: guests\nbuild: {debian: bookworm, slim: true, packages: [iperf3, netpipe-openmpi, hpcc]}\nnodes: 2\nranks_per_node: 1\nenv: {OMP_NUM_THREADS: \"1\", OPENBLAS_NUM_THREADS: \"1\"}\ninputs: [{from: hpccinf.txt, to: /work}]\nworkdir: /work\nvm: {cpus: 1, memory: 768M, fabric: "+c.keys+`}
run: |
  set -e
  iperf3 -s -1 -D
  /.bee/rsh lab-1 'until iperf3 -c node0 -t 10 -O 2 -f m; do sleep 0.2; done'
  mpirun NPopenmpi -u 65536 -o np.out > np.log 2>&1 || cat np.log
  mpirun hpcc > hpcc.log 2>&1 || cat hpcc.log
  cat np.out hpccoutf.txt
`); err != nil {
			return err
		}
		out, err := g.b.do(g.b.bee, "--sites", "two.yaml", "run", "-q", "guests.yaml")
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		got, err := guestFigures(out)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if plain == nil {
			plain = got
		}
		for _, f := range []struct{ name, unit string }{
			{"TCP", "Mbit/s"},
			{"latency of 8 bytes", "µs"},
			{"bandwidth of 64 KiB", "Gbit/s"},
			{"best bandwidth", "Gbit/s"},
			{"NaturallyOrderedRingLatency_usec", "µs"},
			{"NaturallyOrderedRingBandwidth_GBytes", "GB/s"},
			{"RandomlyOrderedRingLatency_usec", "µs"},
			{"RandomlyOrderedRingBandwidth_GBytes", "GB/s"},
		} {
			g.b.rows = append(g.b.rows, [4]string{c.name + ": " + f.name, fmt.Sprintf("%.3g %s", got[f.name], f.unit), fmt.Sprintf("QEMU's stream %.3g", plain[f.name]), fmt.Sprintf("%.2f", got[f.name]/plain[f.name])})
		}
	}
	return nil
}

// guestFigures reads what iperf3 says of the receiver, NetPIPE's table, and HPCC's summary.
func guestFigures(out string) (map[string]float64, error) {
	var tcp float64
	var table strings.Builder
	np, hpcc, _ := strings.Cut(out, "HPC Challenge")
	for line := range strings.Lines(np) {
		if _, rest, ok := strings.Cut(line, "Bytes"); ok && strings.HasSuffix(strings.TrimSpace(line), "receiver") {
			fmt.Sscan(rest, &tcp) //nolint:errcheck // it is 0 then
		}
		var size int
		var rate, seconds float64
		if n, _ := fmt.Sscan(line, &size, &rate, &seconds); n == 3 {
			table.WriteString(line)
		}
	}
	if tcp == 0 || table.Len() == 0 {
		return nil, fmt.Errorf("iperf3 and NetPIPE said %q", out)
	}
	figures, err := netpipeFigures(table.String())
	if err != nil {
		return nil, err
	}
	figures["TCP"] = tcp
	rings, err := hpccFigures(hpcc)
	if err == nil && rings["RandomlyOrderedRingBandwidth_GBytes"] == 0 {
		err = fmt.Errorf("HPCC said %q", hpcc)
	}
	maps.Copy(figures, rings)
	return figures, err
}
