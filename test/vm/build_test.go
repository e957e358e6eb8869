package vm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// dockerfile is of an image of nothing but busybox, which needs no other.
const dockerfile = `FROM scratch
COPY busybox /bin/busybox
SHELL ["/bin/busybox", "sh", "-c"]
RUN for applet in sh cat id sleep; do /bin/busybox ln -s busybox /bin/$applet; done
` + steps

const steps = `ARG GREETING=none
ENV GREETING=$GREETING
WORKDIR /opt
COPY sub/greeting .
RUN echo "uid $(id -u) said $(cat greeting)" > built
`

// builder is a bee with a context that has busybox.
func builder(t *testing.T) *testkit.Bee {
	t.Helper()
	testkit.RequireUser(t)
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	busybox, err := os.ReadFile(testkit.RequireTool(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	b := testkit.NewBee(t)
	if err := os.Chmod(b.File("app/busybox", string(busybox)), 0o755); err != nil {
		t.Fatal(err)
	}
	b.File("app/sub/greeting", "hello")
	return b
}

// ofBuilds is the virtual machine of builds; runs of their images have none.
const ofBuilds = "vm: {when: never, cpus: 1, memory: 1G}\n"

// TestADockerfileIsBuiltInAVirtualMachine: an image that is then run without one, whose
// base only this user can get.
func TestADockerfileIsBuiltInAVirtualMachine(t *testing.T) {
	b := builder(t)
	registry, config := testkit.PrivateRegistry(t)
	b.Env = append(b.Env, "DOCKER_CONFIG="+config)
	base := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	b.Must("image", "pull", base)
	b.Must("image", "push", base, registry+"/base:1")
	b.File("app/Based", "ARG BASE=none\nFROM "+registry+"/$BASE AS base\nFROM base\n"+steps+`CMD ["sh", "-c", "cat built; echo $PWD $GREETING"]`+"\n")
	job := b.File("job.yaml", "build: {context: app, dockerfile: Based, builder: vm, args: {GREETING: a b, BASE: 'base:1'}}\n"+ofBuilds)
	if got := b.Must("run", "-q", job); got != "uid 0 said hello\n/opt a b\n" {
		t.Errorf("the image's command says %q", got)
	}
	if got := strings.TrimSpace(b.Must("ps", "-aq")); strings.Contains(got, "\n") {
		t.Errorf("there are runs\n%s", got)
	}
}

// TestABuildInAVirtualMachineFails: a step of the Dockerfile fails, or the build's bee is
// killed.
func TestABuildInAVirtualMachineFails(t *testing.T) {
	testkit.Long(t, "TestADockerfileIsBuiltInAVirtualMachine")
	b := builder(t)
	file := b.File("Failing", dockerfile+"RUN echo too bad; exit 3\n") // outside of its context
	job := b.File("failing.yaml", "build: {context: app, dockerfile: ../Failing, builder: vm}\n"+ofBuilds)
	r := b.Try("image", "build", job)
	_, text, _ := strings.Cut(r.Stderr, file+": ")
	for _, want := range []string{"RUN echo too bad; exit 3", " too bad\n", "exit code: 3"} {
		if r.Code != 200 || !strings.Contains(text, want) {
			t.Errorf("a step that fails is told without %q: %d %s", want, r.Code, r.Stderr)
		}
	}

	b.File("app/Slow", dockerfile+"RUN sleep 1000\n")
	job = b.File("slow.yaml", "name: slow\nbuild: {context: app, dockerfile: Slow, builder: vm}\n"+ofBuilds)
	killed := b.Command("image", "build", job)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	defer killed.Wait() //nolint:errcheck // it may have ended
	defer killed.Process.Signal(syscall.SIGTERM)
	var id string
	testkit.Eventually(t, time.Minute, func() error {
		if id = strings.TrimSpace(b.Must("ps", "-q")); id == "" || len(machinesOf(id)) == 0 {
			return errors.New("the build has no machine")
		}
		return nil
	})
	testkit.Kill(killed.Process.Pid)
	testkit.Eventually(t, time.Minute, func() error {
		b.Must("supervise")
		if runs := b.Must("ps", "-aq"); strings.Contains(runs, id) || len(machinesOf(id)) > 0 {
			return fmt.Errorf("of the build %s that was killed there is still something; runs:\n%s", id, runs)
		}
		return nil
	})
}
