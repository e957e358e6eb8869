// Package ci runs the pipelines of docs/how-to/ci.md, with the steps in ci/, on a site behind
// ssh. The programs of the CI services are real where they run here.
package ci

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

const key = "ab40cd1e86f52c4d5a1b"

// image is what pipelines here build, instead of the name in the page, which others may use.
var image = fmt.Sprintf("bee-ci-%d:ci", os.Getpid())

// code is what the job ends with.
const code = 3

// blocks returns the blocks of the page with a mark, with what is this machine's in place of
// releases and addresses.
func blocks(t *testing.T, mark string) (list []string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "how-to", "ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```"+mark+"\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		list = append(list, strings.NewReplacer("app:ci", image, "bee: 0.1.0", "bee: "+testkit.Binary(t)).Replace(m[1]))
	}
	return list
}

// startedWith returns the blocks that begin so.
func startedWith(all []string, beginning string) (list []string) {
	for _, b := range all {
		if strings.HasPrefix(b, beginning) {
			list = append(list, b)
		}
	}
	return list
}

// machine is a fresh machine of a CI service, with a checkout of an application, this
// repository beside it, and access to a site.
func machine(t *testing.T, farm *sshfarm.Farm) *testkit.Bee {
	t.Helper()
	b := testkit.NewBee(t)
	b.Env = append(append(b.Env, farm.Env()...), "BEE_TICKET_KEY=", "BEE_SITES=", "CI=true", "DOCKER_BUILDKIT=0", "DOCKER_HOST="+os.Getenv("BEE_TEST_DOCKER_HOST"))
	b.File("sites.yaml", "sites:\n  - {name: cluster, provider: ssh, hosts: ["+strings.Join(farm.Names, ", ")+"], scratch: "+farm.Private+", slots: 2}\n")
	b.File("job.yaml", startedWith(blocks(t, "yaml"), "name:")[0])
	b.File("Dockerfile", "FROM scratch\nENV PATH=/bin\nCOPY root /\n")
	b.File("root/app/model", fmt.Sprintf("#!/bin/sh\necho '::error::'steps $1\nsleep 2\necho result >out.dat\nexit %d\n", code))
	busybox, err := os.ReadFile(testkit.RequireTool(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	b.File("root/bin/busybox", string(busybox))
	for _, file := range []string{"root/app/model", "root/bin/busybox"} {
		if err := os.Chmod(filepath.Join(b.Work, file), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "echo", "sleep"} {
		if err := os.Symlink("busybox", filepath.Join(b.Work, "root/bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(b.Work, "ci"), os.DirFS(filepath.Join(testkit.Root(t), "ci"))); err != nil {
		t.Fatal(err)
	}
	return b
}

// execute runs a program on a machine and returns its exit code and what it printed.
func execute(t *testing.T, b *testkit.Bee, env []string, name string, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	c.Dir, c.Env, c.Stdout, c.Stderr = b.Work, append(append(os.Environ(), b.Env...), env...), &out, &out
	c.WaitDelay = 10 * time.Second
	err := c.Run()
	if c.ProcessState == nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	t.Logf("%s %q ended with %d:\n%s", name, args, c.ProcessState.ExitCode(), out.String())
	return c.ProcessState.ExitCode(), out.String()
}

// pass copies a file from one machine to another, as a CI service does with artifacts.
func pass(t *testing.T, from, to *testkit.Bee, name string) {
	t.Helper()
	to.File(name, from.Read(name))
}

// checkResults checks what a job has left whose model ended with its code.
func checkResults(t *testing.T, b *testkit.Bee, printed string) {
	t.Helper()
	if !strings.Contains(printed, "steps 10\n") {
		t.Errorf("the output of the job is not shown")
	}
	if got := b.Read("results/out.dat"); got != "result\n" {
		t.Errorf("the output is %q", got)
	}
	if got := b.Read("results/run.env"); !regexp.MustCompile(`^BEE_CI_RUN=[0-9a-z]+\nBEE_CI_STATE=failed\nBEE_CI_REPORT=results/summary\.md\n$`).MatchString(got) {
		t.Errorf("the variables are %q", got)
	}
	failures := 0
	for d := xml.NewDecoder(strings.NewReader(b.Read("results/junit.xml"))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, is := token.(xml.StartElement); is && start.Name.Local == "failure" {
			failures++
		}
	}
	if failures != 1 || !strings.Contains(b.Read("results/summary.md"), "nightly") {
		t.Errorf("%d failures in\n%s\n%s", failures, b.Read("results/junit.xml"), b.Read("results/summary.md"))
	}
}
