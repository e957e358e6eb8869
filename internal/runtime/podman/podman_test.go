package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestMain(m *testing.M) {
	drivertest.OwnerMain(func() driver.Runtime { return New(command.Options{}) })
	os.Exit(m.Run())
}

// ownStore keeps the test's images and containers apart from the user's, with
// settings that work without systemd and without the right to raise limits.
func ownStore(t *testing.T) {
	t.Helper()
	// Short: podman's sockets are in it, and what it runs as a container ends, to
	// clean up, refuses a run directory of more than 50 characters.
	dir, err := os.MkdirTemp("/tmp", "bee-")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	runtimeDir := filepath.Join(dir, "xdg")
	if err := os.Mkdir(runtimeDir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	t.Setenv("HOME", runtimeDir) // where an ordinary user's podman has its database, which decides over all else
	oci := "runc"
	if _, err := exec.LookPath(oci); err != nil {
		oci = "crun"
	}
	t.Setenv("CONTAINERS_CONF", write("containers.conf", fmt.Sprintf("[engine]\ncgroup_manager=\"cgroupfs\"\nevents_logger=\"none\"\nruntime=%q\n[containers]\ndefault_ulimits=[\"nofile=4096:4096\",\"nproc=32768:32768\"]\n", oci)))
	t.Setenv("CONTAINERS_STORAGE_CONF", write("storage.conf", fmt.Sprintf("[storage]\ndriver=\"vfs\"\ngraphroot=%q\nrunroot=%q\n", filepath.Join(dir, "graph"), filepath.Join(dir, "run"))))
	t.Cleanup(func() {
		var out []byte
		var err error
		leavingNoPause(func() {
			// Their files have the ids of the name space. By those beside them the
			// process is found that holds it.
			out, err = exec.Command("podman", "unshare", "rm", "-rf", filepath.Join(dir, "graph"), filepath.Join(dir, "run"), filepath.Join(runtimeDir, ".local")).CombinedOutput()
		})
		if os.Geteuid() == 0 {
			out, err = nil, nil
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// names are those of the containers of an owner.
func names(t testing.TB, o core.Owner) []string {
	t.Helper()
	out, err := command.Output(context.WithoutCancel(t.Context()), nil, "podman", "ps", "--all", "--filter", "label="+command.Label+"="+o.String(), "--format", "{{.Names}}")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireTool(t, "podman")
	binary := testkit.Binary(t)
	ownStore(t)
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return New(command.Options{Binary: binary}) }, Binary: binary, Filters: true, Names: names}.Run(t)
}

func TestCommandLines(t *testing.T) {
	s := driver.ContainerSpec{
		Owner: core.Owner{User: "u", Run: "r", Attempt: 2}, Name: "bee-r-2-0", Hostname: "h0", Hosts: []string{"10.0.0.2 h1 h1.net"},
		Image: driver.LocalImage{ArchiveTag: "bee.local/image:1"}, Mounts: []driver.Mount{{Source: "/s,1", Target: "/work"}, {Source: "/in", Target: "/data", ReadOnly: true}},
	}
	h := command.Host{UID: 1000, GID: 100, Devices: []driver.Device{{Source: "/dev/infiniband/uverbs0", Target: "/dev/infiniband/uverbs0"}, {Source: "/dev/null", Target: "/dev/other"}}}
	common := "podman run --rm --name bee-r-2-0 --label bee.owner=u/r/2 --pull=never --network=host --pid=private --pids-limit=-1 --log-driver=none --no-healthcheck --cap-drop=all --workdir=/ --env-file /e --security-opt=no-new-privileges --security-opt=label=disable --security-opt=seccomp=/f.json "
	rest := ` --uts=private --hostname h0 --env A=1 --add-host h1:10.0.0.2 --add-host h1.net:10.0.0.2 --device /dev/infiniband/uverbs0 --device /dev/null:/dev/other --mount type=bind,"source=/s,1",target=/work --mount type=bind,source=/in,target=/data,readonly --entrypoint /.bee/bee bee.local/image:1 container-init`
	for name, test := range map[string]struct {
		change func(*driver.ContainerSpec, *command.Host)
		want   string
	}{
		"user":            {func(*driver.ContainerSpec, *command.Host) {}, "--ipc=host --userns=keep-id --user 1000:100"},
		"the image's":     {func(s *driver.ContainerSpec, _ *command.Host) { s.User = &core.Account{UID: 7, GID: 8} }, "--ipc=host --userns=keep-id:uid=7,gid=8 --user 7:8"},
		"root inside":     {func(s *driver.ContainerSpec, _ *command.Host) { s.Root = true }, "--ipc=host --user 0:0"},
		"root":            {func(_ *driver.ContainerSpec, h *command.Host) { h.UID, h.GID, h.MayRaise = 0, 0, true }, "--ipc=host --ulimit memlock=-1:-1 --user 0:0"},
		"limited memory":  {func(s *driver.ContainerSpec, _ *command.Host) { s.Env = []string{core.MemoryVariable + "=67108864"} }, "--ipc=host --userns=keep-id --user 1000:100 --memory=67108864 --memory-swap=67108864"},
		"no limit":        {func(s *driver.ContainerSpec, _ *command.Host) { s.Env = []string{core.MemoryVariable + "=0"} }, "--ipc=host --userns=keep-id --user 1000:100"},
		"no mqueue":       {func(_ *driver.ContainerSpec, h *command.Host) { h.NoMqueue = true }, "--ipc=private --mount type=bind,source=/dev/shm,target=/dev/shm --userns=keep-id --user 1000:100"},
		"root, no mqueue": {func(_ *driver.ContainerSpec, h *command.Host) { h.UID, h.NoMqueue = 0, true }, "--ipc=host --user 0:0"},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := s, h
			test.change(&s, &h)
			ids, err := New(command.Options{}).identity(t.Context(), s, h)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(runCommand("podman", s, h, ids, "/f.json", "/e", []string{"A=1"}), " ")
			drivertest.Same(t, common+test.want+rest, got)
		})
	}
	drivertest.Same(t, "--uidmap 0:1:7 --uidmap 7:0:1 --uidmap 8:8:65529 --gidmap 0:0:65537 --user 7:0", strings.Join(zeroIDs(7, 0, mapped("0 1000 1\n1 100000 65536\n0 1000 1\n1 100000 65536\n")), " "))
	drivertest.Same(t, "--uidmap 0:1:9 --uidmap 70000:0:1 --gidmap 0:0:10 --user 70000:0", strings.Join(zeroIDs(70000, 0, 10), " "))
	drivertest.Same(t, []string{"podman", "rm", "--force", "--ignore", "--time=0", "x"}, removeCommand("podman", "x"))
}
