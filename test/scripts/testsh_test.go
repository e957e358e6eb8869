// Package scripts tests the scripts of the folder hack.
package scripts

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// goProgram stands for go: the part that is to fail does so as go test does, once or each time.
const goProgram = `#!/bin/bash
[ "$1" = test ] || exec echo /nowhere
who=user
case "$*" in *HOME=*home-root*) who=root;; esac
p=github.com/bee-hpc/bee/internal/x
action=pass
case "$who $HOW" in "$BROKEN test") action=fail;; "$BROKEN once") [ -e "$SEEN" ] || action=fail; touch "$SEEN";; esac
[ "$who $HOW" != "$BROKEN panic" ] || action=fail
if [ "$who $HOW" = "$BROKEN hang" ]; then
  [ ! -e "$SEEN" ] || { touch "$SEEN.again"; exec sleep 300; }
  action=fail; touch "$SEEN"
fi
printf '{"Action":"start","Package":"%s"}\n' $p
printf '{"Action":"run","Package":"%s","Test":"TestIt"}\n' $p
[ "$who $HOW" != "$BROKEN crash" ] || exit 2
printf '{"Action":"output","Package":"%s","Test":"TestIt","Output":"broken\\n"}\n' $p
printf '{"Action":"%s","Package":"%s","Test":"TestIt","Elapsed":0.1}\n' $action $p
[ $action = pass ] || [ "$HOW" = panic ] || printf '{"Action":"output","Package":"%s","Output":"FAIL\\n"}\n' $p
printf '{"Action":"%s","Package":"%s","Elapsed":0.1}\n' $action $p
[ $action = pass ] && [ "$who $HOW" != "$BROKEN exit" ]
`

// runTests runs hack/test.sh in a copy of what it needs; how one of its parts fails, if any,
// is "test", "once", "panic", "crash" or "exit".
func runTests(t *testing.T, uid uint32, broken, how, long string) (code int, out string) {
	t.Helper()
	c, _ := testsCommand(t, uid, broken, how, long)
	raw, err := c.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatalf("%v: %s", err, raw)
	}
	return c.ProcessState.ExitCode(), string(raw)
}

// testsCommand is hack/test.sh for runTests, and the file that is there once a test has run.
func testsCommand(t *testing.T, uid uint32, broken, how, long string) (c *exec.Cmd, seen string) {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("../../hack/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	const nothing = "#!/bin/sh\n"
	for name, text := range map[string]string{
		"hack/test.sh": string(script), "x_test.go": "func TestIt(t *testing.T) {\n\ttestkit.RequireRoot(t)\n}\n", "bin/bee": nothing,
		"path/go": goProgram, "path/dockerd": nothing + "exec sleep 60\n", "path/setpriv": nothing + "exit 1\n", "path/git": nothing + "exit 1\n",
		"path/id": nothing, "path/useradd": nothing, "path/chown": nothing, "path/umount": nothing,
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), core.WriteProgram(file, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for at := dir; at != filepath.Dir(os.TempDir()) && at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	seen = filepath.Join(dir, "seen")
	if err := errors.Join(os.Mkdir(seen, 0o755), os.Chmod(seen, 0o777)); err != nil {
		t.Fatal(err)
	}
	seen = filepath.Join(seen, "it")
	c = exec.Command("bash", filepath.Join(dir, "hack/test.sh"))
	c.Dir = dir
	c.Env = []string{"PATH=" + filepath.Join(dir, "path") + ":" + os.Getenv("PATH"), "HOME=/nowhere", "BROKEN=" + broken, "HOW=" + how, "SEEN=" + seen, "BEE_TEST_LONG=" + long}
	if os.Geteuid() == 0 && uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return c, seen
}

// TestATestThatFailsFailsAll: hack/test.sh ends with the code that CI looks at, whichever
// part fails and however, and names the part. A test that fails once and passes alone is named,
// and fails the long form only.
func TestATestThatFailsFailsAll(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	testkit.RequireTool(t, "gotestsum")
	const nobody = 65534
	for name, c := range map[string]struct {
		uid               uint32
		broken, how, long string
		ofRoot, passes    bool
	}{
		"nothing fails":                         {uid: nobody, passes: true},
		"a test fails":                          {uid: nobody, broken: "user", how: "test"},
		"a test fails once":                     {uid: nobody, broken: "user", how: "once", passes: true},
		"a test fails once, in the long form":   {uid: nobody, broken: "user", how: "once", long: "1"},
		"a test panics":                         {uid: nobody, broken: "user", how: "panic"},
		"a process of tests dies":               {uid: nobody, broken: "user", how: "crash"},
		"only the process of tests fails":       {uid: nobody, broken: "user", how: "exit"},
		"by root, nothing fails":                {ofRoot: true, passes: true},
		"by root, a user's test fails":          {broken: "user", how: "test", ofRoot: true},
		"by root, a user's test fails once":     {broken: "user", how: "once", ofRoot: true, passes: true},
		"by root, root's test fails":            {broken: "root", how: "test", ofRoot: true},
		"by root, root's test fails once":       {broken: "root", how: "once", ofRoot: true, passes: true},
		"by root, root's process of tests dies": {broken: "root", how: "crash", ofRoot: true},
		"by root, only root's process fails":    {broken: "root", how: "exit", ofRoot: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ofRoot && os.Geteuid() != 0 {
				return
			}
			code, out := runTests(t, c.uid, c.broken, c.how, c.long)
			verdict := "== failed after"
			if c.passes {
				verdict = "== passed after"
			}
			if (code == 0) != c.passes || !strings.Contains(out, verdict) {
				t.Errorf("it ends with %d:\n%s", code, out)
			}
			failed := regexp.MustCompile(`(?m)^== failed(?:, and passed alone)?: (user|root) .*TestIt`).FindAllString(out, -1)
			if (len(failed) == 1) != (c.how != "" && c.how != "crash" && c.how != "exit") || len(failed) == 1 && !strings.Contains(failed[0], ": "+c.broken+" ") ||
				len(failed) == 1 && strings.Contains(failed[0], "passed alone") != c.passes {
				t.Errorf("it names as failed %q:\n%s", failed, out)
			}
		})
	}
}

// TestTheRepetitionEndsAtOnce: a signal ends hack/test.sh while it repeats a test that hangs.
func TestTheRepetitionEndsAtOnce(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	testkit.RequireTool(t, "gotestsum")
	c, seen := testsCommand(t, 0, "user", "hang", "")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	testkit.Eventually(t, time.Minute, func() error {
		_, err := os.Stat(seen + ".again")
		return err
	})
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if code := c.ProcessState.ExitCode(); code != 130 {
			t.Errorf("it ends with %v:\n%s", err, out.String())
		}
	case <-time.After(time.Minute):
		c.Process.Kill()
		t.Fatal("it waits for the test that it repeats")
	}
}
