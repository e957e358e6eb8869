package ci

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// pipeline is a machine whose repository has a pipeline of the page.
func pipeline(t *testing.T, farm *sshfarm.Farm, text string) (b *testkit.Bee, run func(jobs ...string) (int, string)) {
	t.Helper()
	local := testkit.RequireTool(t, "gitlab-ci-local")
	b = machine(t, farm)
	b.File(".gitlab-ci.yml", regexp.MustCompile(`remote: https://\S+/ci/gitlab/`).ReplaceAllString(text, "local: ci/gitlab/"))
	if ended, _ := execute(t, b, nil, "sh", "-ec", "git init -q . && git add -A && git -c user.name=a -c user.email=a@example.org commit -qm application"); ended != 0 {
		t.Fatal("there is no repository")
	}
	keyFile := b.File("ssh-key", "a key")
	builds := []string{"BUILDAH_ISOLATION=chroot", "STORAGE_DRIVER=vfs"}
	t.Cleanup(func() { // what it has built has other owners
		c := b.Command()
		c.Path, c.Args, c.Env = testkit.RequireTool(t, "buildah"), []string{"buildah", "rmi", "--all", "--force"}, append(c.Env, builds...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return b, func(jobs ...string) (int, string) {
		return execute(t, b, builds, local, append([]string{
			"--force-shell-executor", "--no-color", "--variable", "SSH_KEY=" + keyFile, "--variable", "SSH_KNOWN_HOSTS=" + keyFile, "--variable", "BEE_TICKET_KEY=" + key,
		}, jobs...)...)
	}
}

// TestGitLab runs the first two pipelines of the page by gitlab-ci-local. In the second one, the job that
// waits is on a fresh machine, and only artifacts pass.
func TestGitLab(t *testing.T) {
	t.Parallel()
	testkit.RequireTool(t, "buildah")
	farm := sshfarm.Start(t, 1)
	pipelines := startedWith(blocks(t, "yml"), "include:")
	if len(pipelines) != 3 {
		t.Fatalf("the page has %d pipelines", len(pipelines))
	}
	b, run := pipeline(t, farm, pipelines[0])
	ended, printed := run()
	if ended == 0 || !strings.Contains(printed, "FAIL  bee") {
		t.Errorf("the pipeline of a job that fails ended with %d", ended)
	}
	checkResults(t, b, lines(printed))

	first, submit := pipeline(t, farm, pipelines[1])
	pass(t, b, first, "app.tar") // it is built once
	if ended, _ := submit("--no-json-schema-validation", "bee-submit"); ended != 0 {
		t.Fatalf("the run was not submitted: %d", ended)
	}
	second, wait := pipeline(t, farm, pipelines[1])
	pass(t, first, second, "run.ticket")
	ended, printed = wait("--no-json-schema-validation", "bee-wait")
	if ended == 0 || !strings.Contains(printed, "FAIL  bee-wait") {
		t.Errorf("the wait for a job that fails ended with %d", ended)
	}
	checkResults(t, second, lines(printed))
}

// lines is what jobs have printed, without what gitlab-ci-local has put before each line.
func lines(printed string) string {
	return regexp.MustCompile(`(?m)^\S+ +> `).ReplaceAllString(printed, "")
}
