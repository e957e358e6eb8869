package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// role is what this program is to do in place of tests.
const role = "BEE_TEST_CGROUP_ROLE"

const limit = 32 << 20

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "take": // more memory than the limit allows, once a line came
		bufio.NewReader(os.Stdin).ReadString('\n') //nolint:errcheck // the end is a line as well
		taken := make([]byte, 4*limit)
		for i := 0; i < len(taken); i += 4096 {
			taken[i] = 1
		}
		fmt.Println(len(taken))
		os.Exit(0)
	case "make": // a group, and wait
		g, err := Make(limit)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(g.dir)
		io.Copy(io.Discard, os.Stdin) // the end is all that counts
		os.Exit(0)
	case "kill": // as an ordinary user in a delegated group
		bufio.NewReader(os.Stdin).ReadString('\n') //nolint:errcheck // see above
		g, err := Make(limit)
		if err == nil {
			err = killed(g)
		}
		if err == nil {
			err = g.Remove()
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// own is this program in a role. It dies with the test.
func own(as string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), role+"="+as)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// killed has a process of a group take more memory than it may.
func killed(g *Group) error {
	c := own("take")
	var out bytes.Buffer
	c.Stdout = &out
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	if err := g.Add(c.Process.Pid); err != nil {
		return errors.Join(err, c.Process.Kill(), c.Wait())
	}
	in.Close()
	c.Wait() //nolint:errcheck // its state says how it ended
	if s, is := c.ProcessState.Sys().(syscall.WaitStatus); !is || s.Signal() != syscall.SIGKILL {
		return fmt.Errorf("a process that takes %d bytes of %d ended with %v and took %s", 4*limit, limit, c.ProcessState, out.String())
	}
	if g.Kills() == 0 {
		return errors.New("the group has counted no process that was killed")
	}
	return nil
}

// makeGroup makes a group, or skips the test with the reason why there is none here.
func makeGroup(t *testing.T) *Group {
	t.Helper()
	g, err := Make(limit)
	if core.IsKind(err, core.Unsupported) {
		t.Skipf("no control group can be made here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestAProcessIsKilledAtTheLimit(t *testing.T) {
	testkit.AsRootToo(t)
	g := makeGroup(t)
	if err := killed(g); err != nil {
		t.Fatal(err)
	}
	kills := g.Kills()
	if err := errors.Join(g.Remove(), g.Remove()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(g.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is left: %v", err)
	}
	if g.Kills() != kills {
		t.Errorf("%d kills were counted, and %d once the group is removed", kills, g.Kills())
	}
}

// TestTheGroupOfADeadProcessIsRemoved, and no other.
func TestTheGroupOfADeadProcessIsRemoved(t *testing.T) {
	testkit.AsRootToo(t)
	g := makeGroup(t)
	c := own("make")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	dir := strings.TrimSpace(line)
	if err != nil || filepath.Dir(dir) != filepath.Dir(g.dir) {
		t.Fatalf("another process has made %q beside %s: %v", dir, g.dir, err)
	}
	Sweep()
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the group of a process that lives was removed: %v", err)
	}
	c.Process.Kill()
	c.Wait() //nolint:errcheck // it was killed
	Sweep()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group of a process that was killed is left: %v", err)
	}
	if _, err := os.Stat(g.dir); err != nil {
		t.Errorf("the group of this process was removed: %v", err)
	}
}

// TestADelegatedGroup: an ordinary user has a group, and another user cannot disturb it.
func TestADelegatedGroup(t *testing.T) {
	testkit.RequireRoot(t)
	parent, v, err := delegated()
	if err != nil {
		t.Skipf("no control group can be made here: %v", err)
	}
	binary, err := os.Executable()
	if err == nil {
		err = os.Chmod(binary, 0o755) // whatever umask it was built with, the user runs it
	}
	if err != nil {
		t.Fatal(err)
	}
	const user = 65534
	dir := filepath.Join(parent, fmt.Sprintf("test-delegated-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // those that the user's processes have left as well
		testkit.Eventually(t, 20*time.Second, func() error {
			os.Remove(filepath.Join(dir, ownGroup)) // version 1 has none
			return os.Remove(dir)
		})
	})
	for _, name := range []string{"", procs, "cgroup.subtree_control", "cgroup.threads"} {
		if err := os.Chown(filepath.Join(dir, name), user, user); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	c := own("kill")
	c.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	var out bytes.Buffer
	c.Stdout = &out
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	err = write(filepath.Join(dir, procs), strconv.Itoa(c.Process.Pid))
	in.Close()
	if err = errors.Join(err, c.Wait()); err != nil {
		t.Errorf("an ordinary user in a delegated group of version %d: %v\n%s", map[bool]int{true: 1, false: 2}[v == &first], err, out.String())
	}
}

func TestWithoutAGroup(t *testing.T) {
	var none *Bound
	none.Add(os.Getpid())
	if none.Holds() || none.Why() != nil || none.Kills() != 0 || none.Remove() != nil || Limit(0) != nil {
		t.Error("a container without a limit has a group")
	}
	why := errors.New("reason")
	b := None(why)
	b.Add(os.Getpid())
	if b.Holds() || !errors.Is(b.Why(), why) || b.Kills() != 0 || b.Remove() != nil {
		t.Errorf("a container whose memory cannot be limited: %v", b.Why())
	}
	if os.Geteuid() == 0 {
		return
	}
	if dir, _, err := place(); err == nil && unix.Access(dir, unix.W_OK) != nil {
		if _, err := Make(limit); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("a group below one of another user: %v, expected a reason and a remedy", err)
		}
	}
}
