package workspace

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestABuildInAGuestIsLikeItsJob in what the machine is, and takes the Dockerfile from
// wherever it lies.
func TestABuildInAGuestIsLikeItsJob(t *testing.T) {
	of := &spec.Job{Name: "app", Dir: "/d", VM: &spec.VM{When: spec.VMNever, PerHost: 3, CPUs: 2, Memory: 1 << 30, Image: "oci:./guest", Bridge: true}}
	b := image.GuestBuild{Build: spec.Build{Context: "/d/src", Args: map[string]string{"B": "2", "A": "1 1"}}, Dockerfile: "/d/src/docker/File", Archive: "/cache/tmp/work-1/image.tar", Job: of}
	job := guestSubmission(b, "sha256:00").Job
	if v := job.VM; v.When != spec.VMAlways || v.PerHost != 0 || v.CPUs != 2 || v.Memory != 1<<30 || v.Image != "oci:./guest" || job.Dir != "/d" || job.Name != "build-app" {
		t.Errorf("%+v in %+v", job, *job.VM)
	}
	if got := strings.Join(job.Run.Argv[3:], "|"); got != "sh|image.tar|--|--file|context/docker/File|--build-arg|A=1 1|--build-arg|B=2|context" {
		t.Errorf("docker is given %s", got)
	}
	if job.Outputs[0] != (spec.Output{From: "/work/image.tar", To: "/cache/tmp/work-1"}) || len(job.Inputs) != 1 {
		t.Errorf("in go %v, and out %v", job.Inputs, job.Outputs)
	}
	b.Dockerfile, b.Job = "/d/src.Dockerfile", nil
	job = guestSubmission(b, "sha256:00").Job
	if got := job.Run.Argv[7]; got != "Dockerfile" || len(job.Inputs) != 2 || job.Inputs[1] != (spec.Input{From: "/d/src.Dockerfile", To: "/work/Dockerfile"}) {
		t.Errorf("a Dockerfile outside of its context is %s, from %v", got, job.Inputs)
	}
	b.Bases = []image.GuestBase{{Ref: "debian:12", Archive: "/cache/archives/00.tar", Tag: "bee.local/image:00"}}
	job = guestSubmission(b, "sha256:00").Job
	if got := strings.Join(job.Run.Argv[5:9], "|"); got != "base-0.tar|bee.local/image:00|debian:12|--" || job.Inputs[2] != (spec.Input{From: "/cache/archives/00.tar", To: "/work/base-0.tar"}) {
		t.Errorf("what it builds on is %s, from %v", got, job.Inputs)
	}
}

// TestBuildScript has the script run by a docker that only reports how it was called.
func TestBuildScript(t *testing.T) {
	dir := t.TempDir()
	stub := `#!/bin/sh
if [ "$1" = version ]; then echo $VERSION; exit; fi
echo "$1${DOCKER_BUILDKIT:+ by BuildKit}: $*"
[ "$1" != "$FAILS" ]
`
	if err := core.WriteProgram(filepath.Join(dir, "docker"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, env, want string }{
		{"of Debian 12", "VERSION=20.10.24", "build by BuildKit: build --network host --tag bee.local/build:1 --file F --build-arg A=1 C\nsave by BuildKit: save --output /a/image.tar bee.local/build:1\n"},
		{"later", "VERSION=28.1.1", "build: build --network host --tag bee.local/build:1 --file F --build-arg A=1 C\nsave: save --output /a/image.tar bee.local/build:1\n"},
		{"behind a proxy", "VERSION=28.1.1 https_proxy=x NO_PROXY=y", "build: build --network host --tag bee.local/build:1 --build-arg NO_PROXY --build-arg https_proxy --file F --build-arg A=1 C\nsave: save --output /a/image.tar bee.local/build:1\n"},
		{"that fails", "VERSION=28.1.1 FAILS=build", "build: build --network host --tag bee.local/build:1 --file F --build-arg A=1 C\nexit status 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := exec.Command("sh", "-c", buildScript, "sh", "/a/image.tar", "b.tar", "l:1", "debian", "--", "--file", "F", "--build-arg", "A=1", "C")
			run.Env = append(strings.Fields(c.env), "PATH="+dir+":/usr/bin:/bin")
			out, err := run.CombinedOutput()
			got := string(out)
			if err != nil {
				got += err.Error()
			}
			if got, _ = strings.CutPrefix(got, "tag: tag l:1 debian\n"); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}
