package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestRDMADevicesOfAHost are in the container as `rdma:` says. A mount namespace has a card
// in /sys/class, written after the kernel's documentation, and /dev/null for its nodes.
func TestRDMADevicesOfAHost(t *testing.T) {
	const list = `run: 'test -c /dev/infiniband/uverbs0 && test -c /dev/infiniband/rdma_cm; ls /dev/infiniband || echo none'`
	b, job := busyboxJob(t, "runtime: rootless", list)
	host := t.TempDir()
	class := func(path, text string) {
		t.Helper()
		testkit.WriteFiles(t, host, map[string]string{filepath.Join("class", path): text + "\n"})
	}
	const port = "infiniband/mlx5_0/ports/1/"
	class(port+"state", "4: ACTIVE")
	class(port+"link_layer", "InfiniBand")
	class(port+"rate", "200 Gb/sec (4X HDR)")
	class("infiniband_verbs/uverbs0/ibdev", "mlx5_0")
	with := func(args ...string) (string, error) {
		t.Helper()
		c := b.Command(args...)
		const script = `set -e
mount -t tmpfs class /sys/class && cp -r "$0/class/." /sys/class/
mkdir -p "$0/dev" && mount -t tmpfs dev "$0/dev"
for n in null zero full random urandom tty fuse; do
  if [ -e "/dev/$n" ]; then : >"$0/dev/$n"; mount --bind "/dev/$n" "$0/dev/$n"; fi
done
for n in pts shm mqueue; do
  if [ -d "/dev/$n" ]; then mkdir "$0/dev/$n"; mount --rbind "/dev/$n" "$0/dev/$n"; fi
done
for n in fd stdin stdout stderr ptmx; do
  if [ -L "/dev/$n" ]; then cp -P "/dev/$n" "$0/dev/$n"; fi
done
mkdir "$0/dev/infiniband"
for n in uverbs0 umad0 issm0 rdma_cm; do : >"$0/dev/infiniband/$n"; mount --bind /dev/null "$0/dev/infiniband/$n"; done
mount --rbind "$0/dev" /dev
exec "$@"`
		c.Args = append([]string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, host, c.Path}, args...)
		c.Path, c.Err = testkit.RequireTool(t, "unshare"), nil
		out, err := c.Output()
		if exit, is := errors.AsType[*exec.ExitError](err); is {
			return string(out) + string(exit.Stderr), err
		}
		return string(out), err
	}
	if got, err := with("run", "-q", job); err != nil || got != "rdma_cm\nuverbs0\n" {
		t.Fatalf("got %q, %v", got, err)
	}
	var shown struct {
		Attempts []struct {
			Nodes []struct{ RDMA []core.RDMADevice }
		}
	}
	b.JSON(&shown, "show", "--json", "small")
	if len(shown.Attempts) != 1 || len(shown.Attempts[0].Nodes) != 1 || len(shown.Attempts[0].Nodes[0].RDMA) != 1 {
		t.Fatalf("on record: %+v", shown)
	}
	if d := shown.Attempts[0].Nodes[0].RDMA[0]; d.Name != "mlx5_0" || len(d.Ports) != 1 || d.Ports[0] != (core.RDMAPort{Number: 1, State: "ACTIVE", Link: "InfiniBand", Rate: 200e9}) {
		t.Errorf("on record: %+v", d)
	}
	hidden := b.File("none.yaml", b.Read("job.yaml")+"rdma: none\n")
	if got, err := with("run", "-q", hidden); err != nil || got != "none\n" {
		t.Errorf("with `rdma: none`: %q, %v", got, err)
	}
	class(port+"state", "1: DOWN")
	needed := b.File("host.yaml", b.Read("job.yaml")+"rdma: {device: host}\n")
	if got, err := with("plan", "--json", needed); err == nil || !strings.Contains(got, "DOWN") || strings.Contains(got, `"usable": true`) {
		t.Errorf("the plan with `rdma: host`, and no port: %q, %v", got, err)
	}
	if got, err := with("run", "-q", needed); err == nil || !strings.Contains(got, "mlx5_0") || strings.Contains(got, "uverbs0") {
		t.Errorf("with `rdma: host`, and no port: %q, %v", got, err)
	}
}
