package fair

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// lookTwice waits until w has looked at the processes twice.
func lookTwice(t *testing.T, w *Watch) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := w.looks.Load(); n < 2 {
			return fmt.Errorf("looked %d times", n)
		}
		return nil
	})
}

// bind binds a process to one of its cores.
func bind(t *testing.T, pid int) {
	t.Helper()
	var all, one unix.CPUSet
	err := unix.SchedGetaffinity(pid, &all)
	for cpu := 0; err == nil && one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err == nil {
		err = unix.SchedSetaffinity(pid, &one)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatch looks at two processes of a run, and neither at one of another run nor at one of
// the run's runtime, which is on the host.
func TestWatch(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	tree := t.TempDir()
	own := filepath.Join(tree, "solver")
	mark, err := json.Marshal(origin{Tree: tree, Binary: "/no"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := core.WriteProgram(own, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(program, run string, more ...string) int {
		c := exec.Command(program, "60")
		c.Env = append(more, "BEE_RUN_ID="+run)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill(); c.Wait() }) //nolint:errcheck // it is killed
		return c.Process.Pid
	}
	bind(t, start(own, "7", "BEE_PREFIX="+string(mark)))
	start(own, "7", "BEE_PREFIX="+string(mark))
	start(own, "77", "BEE_PREFIX="+string(mark))
	start(sleep, "7")
	w := Start(t.Context(), Sought{Variable: "BEE_RUN_ID", Value: "7", Tools: "/.bee", Prefix: "BEE_PREFIX"})
	lookTwice(t, w)
	found := w.Stop()
	sum := sha256.Sum256(raw)
	if found.Programs["/solver"] != hex.EncodeToString(sum[:]) || len(found.Programs) != 1 {
		t.Errorf("the programs are %v, expected /solver alone", found.Programs)
	}
	if found.Bound != 1 {
		t.Errorf("a process may use %d cores, expected 1, to which it is bound", found.Bound)
	}
	if found.Busiest != 2 || found.Cores < 1 || found.Cores > runtime.NumCPU() {
		t.Errorf("%d at once, %d cores", found.Busiest, found.Cores)
	}
}

// TestWatchHere looks from within at a process that has the root directory of the watch, and
// reads no file of it.
func TestWatchHere(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(sleep, "60")
	c.Env = []string{"BEE_RUN_ID=8"}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() }) //nolint:errcheck // it is killed
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	w := Start(t.Context(), Sought{Variable: "BEE_RUN_ID", Value: "8", Tools: "/.bee", Here: true})
	lookTwice(t, w)
	if found := w.Names(); found.Files[program] == "" || len(found.Programs) != 0 || found.Busiest != 1 {
		t.Errorf("from within: %+v, expected the identity of %s and no digest", found, program)
	}
	w = Start(t.Context(), Sought{Variable: "BEE_RUN_ID", Value: "8", Tools: "/.bee", Here: true})
	lookTwice(t, w)
	if found := w.Stop(); found.Files[program] == "" || len(found.Programs[program]) != 64 {
		t.Errorf("from within: %+v, expected the digest of %s", found, program)
	}
}

func TestInside(t *testing.T) {
	for _, c := range [][3]string{
		{"/", "/usr/bin/x", "/usr/bin/x"},
		{"/run/root", "/run/root/usr/bin/x", "/usr/bin/x"},
		{"/run/root", "/usr/bin/x", "/usr/bin/x"},
		{"/", "/usr/bin/x (deleted)", ""},
		{"/run/root", "/run/rooted/x", "/run/rooted/x"},
	} {
		if got := inside(c[0], c[1]); got != c[2] {
			t.Errorf("%s in %s is %q, expected %q", c[1], c[0], got, c[2])
		}
	}
}

func TestMapped(t *testing.T) {
	for line, want := range map[string]string{
		"7f00-7f10 r-xp 00000000 fe:00 1234   /usr/lib/libm.so.6\n":    "/usr/lib/libm.so.6",
		"7f00-7f10 r--p 00000000 fe:00 1234   /usr/lib/libm.so.6\n":    "",
		"7f00-7f10 r-xp 00000000 00:00 0      [vdso]\n":                "",
		"7f00-7f10 r-xp 00000000 fe:00 1234   /a dir/with spaces.so\n": "/a dir/with spaces.so",
		"7f00-7f10 r-xp 00000000 fe:00 1234   /tmp/x (deleted)\n":      "/tmp/x (deleted)",
		"7f00-7f10 rwxp 00000000 00:00 0 \n":                           "",
	} {
		if got := mapped(line); got != want {
			t.Errorf("%q is %q, expected %q", line, got, want)
		}
	}
}

func TestCores(t *testing.T) {
	for status, want := range map[string]int{
		"Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n": 2, "Name:\tx\nCpus_allowed:\tff,00000001\n": 9, "Name:\tx\n": 0, "Name:\tx\nCpus_allowed:\tno\n": 0,
	} {
		if got := count(allowed(status)); got != want {
			t.Errorf("%q is %d, expected %d", status, got, want)
		}
	}
}

// TestUnion: ranks that are bound to a core each have two together.
func TestUnion(t *testing.T) {
	if n := count(union(union(nil, []uint32{0, 1}), []uint32{0, 2})); n != 2 {
		t.Errorf("%d cores, expected 2", n)
	}
}
