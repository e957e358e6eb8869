package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What spreads in the step of that name, over links that are slow enough for this
// machine to carry those of all its hosts at once.
const (
	spreadBytes = 96 << 20
	spreadRate  = 50_000_000 // bits per second, each direction of each host
)

// imageBench measures images of gigabytes.
type imageBench struct{ b *bench }

// images has an image spread to more and more hosts without a shared file system, and
// reports how long that takes against one copy over one link, how many copies the busiest
// host sends, and over how many levels the last one gets it.
func (m imageBench) images(rounds int) error {
	if err := m.noisyImage(spreadBytes); err != nil {
		return err
	}
	counts := []int{2, 4, 8, 16, 32}
	if rounds < 30 {
		counts = counts[:3]
	}
	const alone = time.Second * spreadBytes * 8 / spreadRate
	for _, n := range counts {
		took, sent, err := m.spread(n)
		if err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
		levels, err := depth(sent)
		if err != nil {
			return fmt.Errorf("%d hosts: %w", n, err)
		}
		load, _ := os.ReadFile("/proc/loadavg")
		m.b.row(fmt.Sprintf("spread of an image of %d MiB to %d emulated hosts with %d Mbit/s each (levels %d, load %s)", spreadBytes>>20, n, spreadRate/1_000_000, levels, strings.Fields(string(load))[0]),
			took, "one copy", alone)
		most := slices.Max(sent)
		m.b.rows = append(m.b.rows, [4]string{"the most that one of them sent", fmt.Sprintf("%d MiB", most>>20), fmt.Sprintf("the image %d MiB", spreadBytes>>20), fmt.Sprintf("%.2f", float64(most)/spreadBytes)})
		m.b.print()
	}
	return nil
}

// noisyImage makes an image of the small one and a file that nothing compresses.
func (m imageBench) noisyImage(bytes int64) error {
	_, err := m.b.do("sh", "-c", fmt.Sprintf(`set -e
head -c %d /dev/urandom > tree/noise
tar -C tree --owner=0 --group=0 --numeric-owner -cf noisy-layer.tar .
rm tree/noise
`, bytes))
	if err == nil {
		_, err = m.b.do(m.b.podman("import", "noisy-layer.tar", "bee.bench/noisy:1")...)
	}
	if err == nil {
		_, err = m.b.do(m.b.podman("save", "-o", "noisy.tar", "bee.bench/noisy:1")...)
	}
	return err
}

// spread runs a job on so many hosts, none of which has its image, and reports how long
// they took to get it, and what each of them has sent by the end, in bytes.
func (m imageBench) spread(hosts int) (took time.Duration, sent []int64, err error) {
	site := fmt.Sprintf("sites: [{name: lab, provider: local, hosts: %d, private_scratch: true, link_rate: %dmbit}]\n", hosts, spreadRate/1_000_000)
	// The head counts last: asking the others costs it a little, too.
	job := fmt.Sprintf("name: spread\nimage: docker-archive:%s\nnodes: %d\nrun: |\n  for i in %s; do /.bee/rsh lab-$i 'exec cat /sys/class/net/eth0/statistics/tx_bytes'; done\n",
		filepath.Join(m.b.dir, "noisy.tar"), hosts, strings.Join(ranks(hosts), " "))
	if err := m.b.write("spread-site.yaml", site); err != nil {
		return 0, nil, err
	}
	if err := m.b.write("spread.yaml", job); err != nil {
		return 0, nil, err
	}
	out, err := m.b.do(m.b.bee, "--sites", "spread-site.yaml", "run", "-q", "spread.yaml")
	if err != nil {
		return 0, nil, err
	}
	for _, word := range strings.Fields(out) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return 0, nil, fmt.Errorf("what the hosts have sent: %w", err)
		}
		sent = append(sent, n)
	}
	if out, err = m.b.do(m.b.bee, "show", "--json", "spread"); err != nil {
		return 0, nil, err
	}
	var v struct {
		Attempts []struct{ Phases map[string]float64 }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		return 0, nil, err
	}
	if len(sent) != hosts || len(v.Attempts) != 1 {
		return 0, nil, fmt.Errorf("%d hosts told what they have sent, in %d attempts", len(sent), len(v.Attempts))
	}
	slices.Reverse(sent)
	return time.Duration(v.Attempts[0].Phases["image"] * float64(time.Second)), sent, nil
}

// ranks lists those of so many hosts, node 0 last.
func ranks(hosts int) []string {
	var list []string
	for i := range hosts {
		list = append(list, strconv.Itoa(hosts-1-i))
	}
	return list
}

// depth gives the levels below the head over which the last host gets its copy, by how
// much each has sent: copies go to those that follow, in the order of their ranks.
func depth(sent []int64) (int, error) {
	level, next := make([]int, len(sent)), 1
	for rank, bytes := range sent {
		for range int(math.Round(float64(bytes) / spreadBytes)) {
			if next == len(sent) || rank >= next {
				return 0, fmt.Errorf("the hosts have not sent a tree of copies: %d bytes", sent)
			}
			level[next] = level[rank] + 1
			next++
		}
	}
	if next < len(sent) {
		return 0, fmt.Errorf("not every host got its copy from another: %d bytes", sent)
	}
	return level[len(level)-1], nil
}
