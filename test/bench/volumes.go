package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// fio are the patterns that one host's fio tries, by name.
func fio() []struct{ name, options string } {
	return []struct{ name, options string }{
		{"written in pieces of 1 MiB, and synced", "--rw=write --bs=1m --end_fsync=1"},
		{"read in pieces of 1 MiB", "--rw=read --bs=1m"},
		{"written in pieces of 4 KiB, anywhere", "--rw=randwrite --bs=4k --runtime=5 --time_based"},
		{"read in pieces of 4 KiB, anywhere", "--rw=randread --bs=4k --runtime=5 --time_based"},
	}
}

// volumes reads and writes files by fio in the hosts' directory without virtual machines, and in
// a data image that another guest has, by NFS.
func (g guestBench) volumes(int) error {
	if err := g.b.write("two.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n"); err != nil {
		return err
	}
	image := "build: {debian: bookworm, slim: true, packages: [fio]}\n"
	run := "run: |\n  set -e\n"
	for _, f := range fio() { // on the host that has no data image itself
		run += "  /.bee/rsh lab-1 'cd /data; exec fio --minimal --name=f --filename=fio --ioengine=psync --size=256m " + f.options + "'\n"
	}
	var plain []float64
	for _, c := range []struct{ name, keys string }{
		{"the hosts' directory, without virtual machines", "volume: /data\n"},
		{"`dataimage`, by NFS", "vm: {cpus: 1, memory: 1G}\nvolume: {path: /data, kind: dataimage, size: 4G}\n"},
	} {
		if err := g.b.write("io.yaml", "name: io\n"+image+"nodes: 2\nranks_per_node: 1\nworkdir: /data\n"+c.keys+run); err != nil {
			return err
		}
		out, err := g.b.do(g.b.bee, "--sites", "two.yaml", "run", "-q", "io.yaml")
		if err != nil {
			return err
		}
		rates, err := fioRates(out)
		if err != nil {
			return err
		}
		for i, rate := range rates {
			row := [4]string{c.name + ": fio, " + fio()[i].name, fmt.Sprintf("%.0f MB/s", rate), "–", "–"}
			if plain != nil {
				row[2], row[3] = fmt.Sprintf("the hosts' directory %.0f MB/s", plain[i]), fmt.Sprintf("%.3f", rate/plain[i])
			}
			g.b.rows = append(g.b.rows, row)
		}
		if plain == nil {
			plain = rates
		}
	}
	return nil
}

// fioRates are the rates in MB/s that fio printed, one for each pattern.
func fioRates(out string) (all []float64, err error) {
	for line := range strings.Lines(out) {
		f := strings.Split(line, ";")
		if len(f) <= fioWritten {
			continue
		}
		read, err1 := strconv.ParseFloat(f[fioRead], 64)
		written, err2 := strconv.ParseFloat(f[fioWritten], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("fio said %q: %w", line, err)
		}
		all = append(all, (read+written)*1024/1e6)
	}
	if len(all) != len(fio()) {
		return nil, fmt.Errorf("fio said %q", out)
	}
	return all, nil
}

// Places of the rates, in KiB/s, in what fio says with --minimal (its manual,
// "Terse output").
const (
	fioRead    = 6
	fioWritten = 47
)
