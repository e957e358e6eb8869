package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/testkit"
)

// rdmaSizes are sizes of messages in bytes, and rdmaOperations what perftest measures.
var (
	rdmaSizes      = []int{8, 64, 512, 4096, 65536, 1 << 20}
	rdmaOperations = []string{"write", "read", "send"}
)

// rdmaScript prints the typical time of a message in µs and the mean rate in MB/s, each with
// operation and size, measured between the containers of two hosts.
const rdmaScript = testkit.VerbsPairs + `
  for op in %s; do
    for size in %s; do
      both ib_${op}_lat -F -s $size -n 1000
      echo lat $op $size $(awk '$1 == '$size' { print $5 }' client.out)
      both ib_${op}_bw -F -s $size -n 2000
      echo bw $op $size $(awk '$1 == '$size' { print $4 }' client.out)
    done
  done
`

// rdma compares the paths of bee_0 between two containers of this machine, by turns.
func (b *bench) rdma(rounds int) error {
	var sizes []string
	for _, s := range rdmaSizes {
		sizes = append(sizes, strconv.Itoa(s))
	}
	script := fmt.Sprintf(rdmaScript, strings.Join(rdmaOperations, " "), strings.Join(sizes, " "))
	if err := b.write("two.yaml", "sites:\n  - {name: two, provider: local, hosts: 2}\n"); err != nil {
		return err
	}
	paths := []string{"direct", "forward"}
	figures := map[string]map[string][]float64{}
	for _, path := range paths {
		figures[path] = map[string][]float64{}
		err := b.write(path+".yaml", "name: "+path+"\nbuild: {debian: bookworm, slim: true, packages: [perftest, mawk]}\nnodes: 2\nvolume: /data\nworkdir: /data\nrdma: {device: bee, path: "+path+"}\nrun: |\n"+script)
		if err != nil {
			return err
		}
	}
	for range max(rounds/10, 1) {
		for _, path := range paths {
			out, err := b.do(b.bee, "run", "-q", "--sites", "two.yaml", path+".yaml")
			if err != nil {
				return err
			}
			for line := range strings.Lines(out) {
				what, value, is := strings.Cut(strings.TrimSpace(line), " ")
				if at := strings.LastIndexByte(value, ' '); is && at > 0 {
					what, value = what+" "+value[:at], value[at+1:]
				}
				x, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return fmt.Errorf("perftest by path %s printed %q", path, line)
				}
				figures[path][what] = append(figures[path][what], x)
			}
		}
	}
	for _, op := range rdmaOperations {
		for _, size := range sizes {
			for _, kind := range []struct{ key, unit string }{{"lat", "µs"}, {"bw", "MB/s"}} {
				what := kind.key + " " + op + " " + size
				direct, forward := middle(figures["direct"][what]), middle(figures["forward"][what])
				b.rows = append(b.rows, [4]string{
					fmt.Sprintf("bee_0, `ib_%s_%s` of %s bytes, direct", op, kind.key, size), fmt.Sprintf("%.4g %s", direct, kind.unit),
					fmt.Sprintf("forward %.4g %s", forward, kind.unit), fmt.Sprintf("%.3g", direct/forward),
				})
			}
		}
	}
	return nil
}
