package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/testkit"
)

// engineVariable has processes of the test use the daemon's API.
const engineVariable = "BEE_TEST_DOCKER_ENGINE"

func newRuntime() driver.Runtime {
	o := Options{Binary: os.Getenv("BEE_TEST_BINARY")}
	if os.Getenv(engineVariable) != "" {
		o.Own = NewEngine(strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"))
	}
	return New(o)
}

// names are those of the containers of an owner.
func names(t testing.TB, o core.Owner) []string {
	t.Helper()
	out, err := command.Output(context.WithoutCancel(t.Context()), nil, "docker", "ps", "--all", "--filter", "label="+command.Label+"="+o.String(), "--format", "{{.Names}}")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

func TestMain(m *testing.M) {
	drivertest.OwnerMain(newRuntime)
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	binary := testkit.Binary(t)
	testkit.Docker(t)
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return New(Options{Binary: binary}) }, Binary: binary, Filters: true, Names: names, Strangers: true, Memory: limitsMemory(t)}.Run(t)
}

// limitsMemory reports whether the daemon can limit the memory of containers here.
func limitsMemory(t *testing.T) bool {
	t.Helper()
	text, err := command.Output(t.Context(), nil, "docker", "info", "--format", "{{.MemoryLimit}}")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text) == "true"
}

// TestConformanceOfTheEngine is that by the daemon's API.
func TestConformanceOfTheEngine(t *testing.T) {
	testkit.AsRootToo(t)
	if os.Getenv("BEE_TEST_DOCKER_HOST") != "" {
		t.Skip("the daemon is not the test's own, whose root it would be")
	}
	binary := testkit.Binary(t)
	testkit.Docker(t)
	t.Setenv("BEE_TEST_BINARY", binary)
	t.Setenv(engineVariable, "1")
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return newRuntime() }, Binary: binary, Names: names, Strangers: true}.Run(t)
}

// TestADaemonThatHangs holds no node: what ran has ended, what is left behind is
// reported, and goes as soon as the daemon continues.
func TestADaemonThatHangs(t *testing.T) {
	testkit.AsRootToo(t)
	if os.Getenv("BEE_TEST_DOCKER_HOST") != "" {
		t.Skip("the daemon is not the test's own, so it cannot be held")
	}
	binary := testkit.Binary(t)
	t.Setenv("BEE_TEST_BINARY", binary)
	dockerd := testkit.Docker(t)
	for name, engine := range map[string]string{"by the command line": "", "by the API": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(engineVariable, engine)
			drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return newRuntime() }, Binary: binary, Names: names, Strangers: true}.Held(t,
				func() error { return dockerd.Signal(syscall.SIGSTOP) }, func() error { return dockerd.Signal(syscall.SIGCONT) })
		})
	}
}

// TestACancelledStart leaves nothing, and nobody waits for what was never started.
func TestACancelledStart(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.Docker(t)
	image, err := command.Import(t.Context(), "docker")
	if err != nil {
		t.Fatal(err)
	}
	e := NewEngine(strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"))
	for _, steps := range []int{1, 2, 3} { // it is created, attached to, waited for
		ctx, cancel := context.WithCancel(t.Context())
		e.client.Transport = &cutting{e.client.Transport, steps, cancel}
		if _, err := e.run(ctx, "bee-cancelled", creation{Image: image.ArchiveTag, Cmd: []string{"/none"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d requests: %v", steps, err)
		}
		e.client.Transport = e.client.Transport.(*cutting).RoundTripper
		if left, err := command.Output(t.Context(), nil, "docker", "ps", "-aq", "--filter", "name=bee-cancelled"); err != nil || left != "" {
			t.Errorf("after %d requests: %q is left, %v", steps, left, err)
		}
		cancel()
	}
}

// cutting cancels when it has made so many requests.
type cutting struct {
	http.RoundTripper

	left   int
	cancel context.CancelFunc
}

func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return answer, err
}

func TestNoDaemon(t *testing.T) {
	testkit.RequireTool(t, "docker")
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none"))
	facts, err := New(Options{}).Probe(t.Context())
	if err != nil || facts.Usable || !strings.Contains(facts.Remedy, "docker") {
		t.Errorf("probe without a daemon: %+v, %v", facts, err)
	}
}

func TestCommandLines(t *testing.T) {
	s := driver.ContainerSpec{
		Owner: core.Owner{User: "u", Run: "r", Attempt: 2}, Name: "bee-r-2-0", Hostname: "h0", Hosts: []string{"10.0.0.2 h1"},
		Image: driver.LocalImage{ArchiveTag: "bee.local/image:1"}, Mounts: []driver.Mount{{Source: "/s", Target: "/work"}, {Source: "/in", Target: "/data", ReadOnly: true}},
	}
	h := command.Host{UID: 1000, GID: 100, Devices: []driver.Device{{Source: "/dev/kfd", Target: "/dev/kfd"}}}
	common := "docker run --rm --name bee-r-2-0 --label bee.owner=u/r/2 --pull=never --network=host --ipc=host --pids-limit=-1 --log-driver=none --no-healthcheck --workdir=/ "
	rest := ` --security-opt=no-new-privileges --security-opt=label=disable --security-opt=seccomp=/f.json --cap-drop=all --hostname h0 --env A=1 --add-host h1:10.0.0.2 --device /dev/kfd --mount type=bind,source=/s,target=/work --mount type=bind,source=/in,target=/data,readonly --entrypoint /.bee/bee bee.local/image:1 container-init`
	for name, test := range map[string]struct {
		root    bool
		memlock int64
		want    string
	}{
		"user":          {false, -1, "--ulimit memlock=-1:-1 --env-file /e --user 1000:100"},
		"root":          {true, -1, "--ulimit memlock=-1:-1 --env-file /e --user 0:0"},
		"limits locked": {false, 8192, "--ulimit memlock=8192:8192 --env-file /e --user 1000:100"},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Root = test.root
			drivertest.Same(t, common+test.want+rest, strings.Join(New(Options{}).runCommand(s, h, test.memlock, "/f.json", "/e", []string{"A=1"}), " "))
		})
	}
	limited := s
	limited.Env = []string{"A=1", core.MemoryVariable + "=67108864"}
	if got := strings.Join(New(Options{}).runCommand(limited, h, -1, "", "/e", nil), " "); !strings.Contains(got, " --memory=67108864 --memory-swap=67108864 ") {
		t.Errorf("a limit of memory: %s", got)
	}
	s.Root = true
	s.Env = []string{"A=1"}
	own := New(Options{Own: NewEngine("/s")})
	asked := func() string {
		raw, err := json.Marshal(own.creation(s, h, 8192))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	inside := `{"Image":"bee.local/image:1","Hostname":"h0","User":"%s","WorkingDir":"/","Entrypoint":["/.bee/bee"],"Cmd":["container-init"],"Env":["A=1"],"Labels":{"bee.owner":"u/r/2"},` +
		`"Healthcheck":{"Test":["NONE"]},"AttachStdout":true,"AttachStderr":true,"HostConfig":{"NetworkMode":"host","IpcMode":"host","PidsLimit":-1,"LogConfig":{"Type":"none"},` +
		`"SecurityOpt":["no-new-privileges","label=disable","seccomp=unconfined"],"CapDrop":%s,"Ulimits":[{"Name":"memlock","Soft":8192,"Hard":8192}],"ExtraHosts":["h1:10.0.0.2"],` +
		`"Devices":[{"PathOnHost":"/dev/kfd","PathInContainer":"/dev/kfd","CgroupPermissions":"rwm"}],` +
		`"Mounts":[{"Type":"bind","Source":"/s","Target":"/work","ReadOnly":false},{"Type":"bind","Source":"/in","Target":"/data","ReadOnly":true}],"AutoRemove":true}}`
	drivertest.Same(t, fmt.Sprintf(inside, "0:0", "null"), asked())
	s.Root = false
	drivertest.Same(t, fmt.Sprintf(inside, "1000:100", `["ALL"]`), asked())
	s.User = &core.Account{UID: 1234, GID: 1235}
	mapped := strings.Replace(inside, `["container-init"]`, `["container-init","as","1234:1235"]`, 1)
	drivertest.Same(t, fmt.Sprintf(mapped, "1000:100", `["ALL"]`), asked())
	h.UID, h.GID = 0, 0
	drivertest.Same(t, fmt.Sprintf(mapped, "0:0", `["ALL"],"CapAdd":["SETFCAP"]`), asked())
	drivertest.Same(t, []string{"docker", "rm", "--force", "x"}, removeCommand("docker", "x"))
}
