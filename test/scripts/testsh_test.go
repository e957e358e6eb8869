// Package scripts tests the scripts of the folder hack.
package scripts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// goProgram stands for go: the part that is to fail does so as go test does.
const goProgram = `#!/bin/bash
[ "$1" = test ] || exec echo /nowhere
who=user
case "$*" in *HOME=*home-root*) who=root;; esac
p=github.com/bee-hpc/bee/internal/x
action=pass
[ "$who $HOW" != "$BROKEN test" ] || action=fail
printf '{"Action":"run","Package":"%s","Test":"TestIt"}\n' $p
[ "$who $HOW" != "$BROKEN crash" ] || exit 2
printf '{"Action":"output","Package":"%s","Test":"TestIt","Output":"broken\\n"}\n' $p
printf '{"Action":"%s","Package":"%s","Test":"TestIt","Elapsed":0.1}\n' $action $p
printf '{"Action":"%s","Package":"%s","Elapsed":0.1}\n' $action $p
[ $action = pass ]
`

// runTests runs hack/test.sh in a copy of what it needs; how one of its parts fails, if any,
// is "test" or "crash".
func runTests(t *testing.T, uid uint32, broken, how string) (code int, out string) {
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
	c := exec.Command("bash", filepath.Join(dir, "hack/test.sh"))
	c.Dir = dir
	c.Env = []string{"PATH=" + filepath.Join(dir, "path") + ":" + os.Getenv("PATH"), "HOME=/nowhere", "BROKEN=" + broken, "HOW=" + how}
	if os.Geteuid() == 0 && uid != 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	raw, err := c.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatalf("%v: %s", err, raw)
	}
	return c.ProcessState.ExitCode(), string(raw)
}

// TestATestThatFailsFailsAll: hack/test.sh ends with the code that CI looks at, whichever
// part fails and however, and names the part.
func TestATestThatFailsFailsAll(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	testkit.RequireTool(t, "gotestsum")
	const nobody = 65534
	for name, c := range map[string]struct {
		uid         uint32
		broken, how string
		ofRoot      bool
	}{
		"nothing fails":                         {uid: nobody},
		"a test fails":                          {nobody, "user", "test", false},
		"a process of tests dies":               {nobody, "user", "crash", false},
		"by root, nothing fails":                {ofRoot: true},
		"by root, a user's test fails":          {0, "user", "test", true},
		"by root, root's test fails":            {0, "root", "test", true},
		"by root, root's process of tests dies": {0, "root", "crash", true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ofRoot && os.Geteuid() != 0 {
				return
			}
			code, out := runTests(t, c.uid, c.broken, c.how)
			verdict := "== passed after"
			if c.how != "" {
				verdict = "== failed after"
			}
			if (code != 0) != (c.how != "") || !strings.Contains(out, verdict) {
				t.Errorf("it ends with %d:\n%s", code, out)
			}
			failed := regexp.MustCompile(`(?m)^== failed: (user|root) .*TestIt`).FindAllString(out, -1)
			if (len(failed) == 1) != (c.how == "test") || len(failed) == 1 && !strings.HasPrefix(failed[0], "== failed: "+c.broken+" ") {
				t.Errorf("it names as failed %q:\n%s", failed, out)
			}
		})
	}
}
