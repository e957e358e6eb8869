package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// frames compares BEE's switch with what else passes frames between guests: the
// endpoints are native programs, so that no emulation is in the way.
func (b *bench) frames(int) error {
	program := filepath.Join(b.dir, "frames-program")
	build := b.command("go", "build", "-o", program, "./test/bench/frames")
	var err error
	if build.Dir, err = os.Getwd(); err != nil {
		return err
	}
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	argv := []string{"unshare", "-n", program}
	if os.Geteuid() != 0 {
		argv = []string{"unshare", "-Urn", program}
	}
	out, err := b.command(argv...).Output()
	if err != nil {
		return fmt.Errorf("measure frames: %w", err)
	}
	type result struct {
		What, Pattern, Note string
		Size, Hosts         int
		Gbit, Micros, MB    float64
		PerCPU              float64 `json:"per_cpu"`
		Alone               float64
	}
	all := map[string]result{}
	for lines := json.NewDecoder(bytes.NewReader(out)); lines.More(); {
		var r result
		if err := lines.Decode(&r); err != nil {
			return err
		}
		all[fmt.Sprint(r.What, r.Size, r.Pattern)] = r
	}
	add := func(what string, own, other result, x, y float64, unit string) {
		if other.Note != "" {
			b.rows = append(b.rows, [4]string{what, "–", other.What + ": " + other.Note, "–"})
			return
		}
		b.rows = append(b.rows, [4]string{what, fmt.Sprintf("%.3g %s", x, unit), fmt.Sprintf("%s %.3g", other.What, y), fmt.Sprintf("%.2f", x/y)})
	}
	for _, size := range []int{1500, 64000} {
		for _, p := range [][2]string{
			{"switch, two hosts, plain", "QEMU socket multicast"},
			{"switch, two hosts, plain", "QEMU stream pair"},
			{"switch, two hosts, TLS", "switch, two hosts, plain"},
			{"switch, two hosts, plain", "switch by sockets, two hosts, plain"},
			{"switch, one host", "switch by sockets, one host"},
			{"switch, one host", "QEMU stream pair"},
			{"switch, four flows by four connections", "switch, four flows by one connection"},
			{"switch, one host", "vde_switch"},
			{"switch, one host", "kernel bridge with veth"},
		} {
			own, other := all[fmt.Sprint(p[0], size, "pair")], all[fmt.Sprint(p[1], size, "pair")]
			if other.What == "" {
				continue // vde_switch knows no large frames
			}
			add(fmt.Sprintf("%s: frames of %d bytes", p[0], size), own, other, own.Gbit, other.Gbit, "Gbit/s")
			add("the same, for each second of processor time", own, other, own.PerCPU, other.PerCPU, "Gbit")
			if other.Alone == 0 {
				b.rows = append(b.rows, [4]string{"the same, for each second of the switches' own", fmt.Sprintf("%.3g Gbit", own.Alone), "–", "–"})
			}
			if size == 1500 && own.Micros > 0 {
				add("the same: latency of 64 bytes", own, other, own.Micros, other.Micros, "µs")
			}
		}
	}
	if m := all[fmt.Sprint("memory of a switch", 64000, "memory")]; m.MB > 0 {
		b.rows = append(b.rows, [4]string{fmt.Sprintf("memory of a switch that is linked to %d others, large frames both ways", m.Hosts-1), fmt.Sprintf("%.0f MB", m.MB), "–", "–"})
	}
	for _, pattern := range []string{"all to all", "ring", "all to one"} {
		for _, size := range []int{1500, 64000} {
			own := all[fmt.Sprint("switch", size, pattern)]
			for _, kind := range []string{"switch, plain", "tree", "star", "multicast"} {
				other := all[fmt.Sprint(kind, size, pattern)]
				add(fmt.Sprintf("%d switches, %s, frames of %d bytes", own.Hosts, pattern, size), own, other, own.Gbit, other.Gbit, "Gbit/s")
			}
		}
	}
	return nil
}
