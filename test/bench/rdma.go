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

// ucxTest is a test of ucx_perftest.
type ucxTest struct {
	transports, test, kind, operation string
	sizes                             []int
}

// key is how rdmaScript prints its figure.
func (u ucxTest) key(size int) string {
	return fmt.Sprintf("ucx-%s-%s %s %d", u.transports, u.kind, u.operation, size)
}

// ucx are the tests of ucx_perftest that figures of bee_0 are compared with, by transport.
var ucx = []ucxTest{
	{"posix", "put_lat", "lat", "write", []int{8}},
	{"posix", "put_bw", "bw", "write", []int{65536, 1 << 20}},
	{"posix", "tag_lat", "lat", "send", []int{8}},
	{"posix,cma", "tag_bw", "bw", "send", []int{65536}},
	{"tcp", "tag_lat", "lat", "send", []int{8}},
	{"tcp", "tag_bw", "bw", "send", []int{65536}},
}

// rdmaScript prints the typical time of a message in µs and the mean rate in MB/s, each with
// operation and size, measured between the containers of two hosts. UCX is measured between two processes of one
// container, as its transports of shared memory end at the namespaces of a host.
const rdmaScript = testkit.VerbsPairs + `
  for op in %s; do
    for size in %s; do
      both ib_${op}_lat -F -s $size -n 1000
      echo lat $op $size $(awk '$1 == '$size' { print $5 }' client.out)
      both ib_${op}_bw -F -s $size -n 2000
      echo bw $op $size $(awk '$1 == '$size' { print $4 }' client.out)
    done
  done
  pair() {
    /.bee/rsh $server env UCX_TLS=$1 ucx_perftest -f -t $2 -s $3 -n $4 >server.out 2>&1 & pid=$!
    until /.bee/rsh $server env UCX_TLS=$1 ucx_perftest -f -t $2 -s $3 -n $4 127.0.0.1 >client.out 2>&1; do
      kill -0 $pid 2>/dev/null || { cat server.out client.out; exit 1; }
      sleep 0.1
    done
    wait $pid
    grep -q ^Final: client.out || { cat client.out; exit 1; }
  }
%s`

// rdma compares the paths of bee_0 between two containers of this machine, by turns.
func (b *bench) rdma(rounds int) error {
	var sizes []string
	for _, s := range rdmaSizes {
		sizes = append(sizes, strconv.Itoa(s))
	}
	script := fmt.Sprintf(rdmaScript, strings.Join(rdmaOperations, " "), strings.Join(sizes, " "), ucxScript())
	if err := b.write("two.yaml", "sites:\n  - {name: two, provider: local, hosts: 2}\n"); err != nil {
		return err
	}
	paths := []string{"direct", "forward"}
	figures := map[string]map[string][]float64{}
	for _, path := range paths {
		figures[path] = map[string][]float64{}
		err := b.write(path+".yaml", "name: "+path+"\nbuild: {debian: bookworm, slim: true, packages: [perftest, ucx-utils, mawk]}\nnodes: 2\nvolume: /data\nworkdir: /data\nrdma: {device: bee, path: "+path+"}\nrun: |\n"+script)
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
	for _, u := range ucx {
		for _, size := range u.sizes {
			unit := map[string]string{"lat": "µs", "bw": "MB/s"}[u.kind]
			own := middle(figures["direct"][fmt.Sprintf("%s %s %d", u.kind, u.operation, size)])
			other := middle(figures["direct"][u.key(size)])
			b.rows = append(b.rows, [4]string{
				fmt.Sprintf("bee_0, `ib_%s_%s` of %d bytes, direct", u.operation, u.kind, size), fmt.Sprintf("%.4g %s", own, unit),
				fmt.Sprintf("UCX `%s` %s %.4g %s", u.transports, u.test, other, unit), fmt.Sprintf("%.3g", own/other),
			})
		}
	}
	return nil
}

// ucxScript is the part of rdmaScript for UCX: fields of the last line are the typical time in µs, and the rate of all
// in MB/s.
func ucxScript() string {
	var text strings.Builder
	for _, u := range ucx {
		for _, size := range u.sizes {
			rounds, field := 100000, 3
			if u.kind == "bw" {
				rounds, field = 20000, 7
			}
			fmt.Fprintf(&text, "  pair %s %s %d %d\n  echo %s $(awk '/^Final:/ { print $%d }' client.out)\n", u.transports, u.test, size, rounds, u.key(size), field)
		}
	}
	return text.String()
}
