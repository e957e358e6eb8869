package e2e

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAGPUsDeviceAndLibrariesAreInTheContainer does what docs/how-to/gpus-and-infiniband.md promises. It takes /dev/fuse and a text for them, by
// a CDI specification that a mount namespace has.
func TestAGPUsDeviceAndLibrariesAreInTheContainer(t *testing.T) {
	const device = "/dev/fuse"
	if _, err := os.Stat(device); err != nil {
		testkit.Missing(t, "%v", err)
	}
	b, job := busyboxJob(t, "runtime: rootless", "gpus: 1",
		`run: 'test -c `+device+` && cat /usr/lib/libcuda.so.1; echo again > /usr/lib/libcuda.so.1 || echo fixed'`)
	library := b.File("libcuda.so.550.1", "the host's driver\n")
	spec := b.File("nvidia.yaml", `cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes: [{path: `+device+`}]
containerEdits:
  mounts: [{hostPath: `+library+`, containerPath: /usr/lib/libcuda.so.550.1}]
  hooks:
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, create-symlinks, --link, "libcuda.so.550.1::/usr/lib/libcuda.so.1"]}
`)
	with := func(args ...string) (string, error) {
		c := b.Command(args...)
		script := `mount -t tmpfs cdi /run && mkdir /run/cdi && cp "$0" /run/cdi/ && exec "$@"`
		c.Args = append([]string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, spec, c.Path}, args...)
		c.Path, c.Err = testkit.RequireTool(t, "unshare"), nil
		out, err := c.Output()
		if exit, is := errors.AsType[*exec.ExitError](err); is {
			return string(out) + string(exit.Stderr), err
		}
		return string(out), err
	}
	if got, err := with("run", "-q", job); err != nil || !strings.HasPrefix(got, "the host's driver\n") || !strings.HasSuffix(got, "fixed\n") {
		t.Errorf("got %q, %v", got, err)
	}
	two := b.File("two.yaml", strings.Replace(b.Read("job.yaml"), "gpus: 1", "gpus: 2", 1))
	if got, err := with("plan", "--json", two); err == nil || !strings.Contains(got, "`gpus:`") || strings.Contains(got, `"usable": true`) {
		t.Errorf("the plan of two: %q, %v", got, err)
	}
	if got, err := with("run", "-q", two); err == nil || !strings.Contains(got, "`gpus:`") {
		t.Errorf("got %q, %v", got, err)
	}
}
