package e2e

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// terminal is a bee on a terminal that script(1) makes, as people have one.
type terminal struct {
	t      *testing.T
	script *exec.Cmd
	keys   io.Writer
	mu     sync.Mutex
	shown  bytes.Buffer // that nobody has awaited yet
}

func onTerminal(t *testing.T, b *testkit.Bee, args ...string) *terminal {
	t.Helper()
	c := b.Command(args...)
	x := &terminal{t: t, script: exec.Command(testkit.RequireTool(t, "script"), "-q", "-e", "-c", "exec "+strings.Join(quoted(c.Args), " "), "/dev/null")}
	x.script.Env, x.script.Dir, x.script.Stdout = append(c.Env, "TERM=vt100"), c.Dir, x
	keys, err := x.script.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	x.keys = keys
	if err := x.script.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.script.Process.Kill() })
	return x
}

func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.Write(p)
}

// await waits until the terminal shows a text, after those that were awaited before.
func (x *terminal) await(text string) {
	x.t.Helper()
	testkit.Eventually(x.t, 30*time.Second, func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, after, found := strings.Cut(x.shown.String(), text)
		if !found {
			return errors.New("no " + text + " on the terminal, but " + x.shown.String())
		}
		x.shown.Reset()
		x.shown.WriteString(after)
		return nil
	})
}

// text is what the terminal shows that nobody has awaited.
func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.shown.String()
}

// press types keys.
func (x *terminal) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.keys, keys); err != nil {
		x.t.Fatal(err)
	}
}

// answer types Ctrl-C, and what to say to what is asked then.
func (x *terminal) answer(word string) {
	x.t.Helper()
	x.press("\x03")
	x.await("[N]o: ")
	x.press(word + "\n")
}

// exit waits for the end, and gives bee's exit code.
func (x *terminal) exit() int {
	x.script.Wait() //nolint:errcheck // its state shows it
	return x.script.ProcessState.ExitCode()
}

// TestARunAndItsTerminal: what Ctrl-C means is asked, and a terminal that goes away
// means nothing.
func TestARunAndItsTerminal(t *testing.T) {
	b, job := busyboxJob(t, "run: 'echo ready; until test -e /go; do sleep 0.05; done; echo done'")
	begin := func(t *testing.T) (*terminal, string) {
		t.Helper()
		x := onTerminal(t, b, "run", job)
		x.await("ready")
		return x, strings.TrimSpace(b.Must("ps", "-q"))
	}
	// finish has the job end, and looks that nothing of its output is lost.
	finish := func(t *testing.T, id string) {
		t.Helper()
		b.Touch(id, "/go")
		if v := b.Await(id, 30*time.Second); v.State != "succeeded" {
			t.Errorf("the run: %+v", v)
		}
		if text := b.Must("logs", id); text != "ready\ndone\n" {
			t.Errorf("it has printed %q", text)
		}
	}
	t.Run("no, and then stop", func(t *testing.T) {
		x, id := begin(t)
		inside := onTerminal(t, b, "exec", "-it", id, "sh", "-c", `test -c "$(tty)" && tty; exit 3`)
		inside.await("/dev/pts/")
		if code := inside.exit(); code != 3 {
			t.Errorf("a command on a terminal of its own ended with %d", code)
		}
		x.answer("")
		x.await("it continues")
		x.answer("y")
		if code, v := x.exit(), b.Await(id, 30*time.Second); code != 207 || v.State != "stopped" {
			t.Errorf("exit code %d, %+v", code, v)
		}
	})
	t.Run("no, and then detach", func(t *testing.T) {
		x, id := begin(t)
		x.answer("n")
		x.await("it continues")
		x.answer("d")
		x.await(id)
		if code := x.exit(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		finish(t, id)
	})
	t.Run("the terminal dies", func(t *testing.T) {
		x, id := begin(t)
		if err := x.script.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		x.exit()
		finish(t, id)
		if r := b.Try("logs", "--controller", id); r.Code != 202 {
			t.Errorf("another controller has taken it over: %+v", r)
		}
	})
}

// TestTheInputOfARun: -i passes standard input, -t a terminal, and neither is taken for
// whole where the process that passes it has gone.
func TestTheInputOfARun(t *testing.T) {
	t.Parallel()
	b, pipe := busyboxJob(t, "nodes: 2", "run: 'echo ready; wc -c; echo all'")
	b.Env = append(b.Env, "BEE_SITES="+labSites(b, "2"))
	t.Run("a pipe", func(t *testing.T) {
		c := b.Command("run", "-q", "-i", pipe)
		c.Stdin = strings.NewReader(strings.Repeat("x", 1<<20))
		if out, err := c.CombinedOutput(); err != nil || string(out) != "ready\n1048576\nall\n" {
			t.Errorf("%v: %q", err, out)
		}
	})
	t.Run("a terminal", func(t *testing.T) {
		x := onTerminal(t, b, "run", "-it", b.File("terminal.yaml", strings.Replace(b.Read("job.yaml"), "wc -c; echo all", "tty; exec cat", 1)))
		x.await("ready")
		x.await("/dev/pts/")
		x.press("typed\n")
		x.await("typed")
		x.await("typed") // what is typed, and what cat writes
		x.press("\x03")
		x.await("130")
		if code := x.exit(); code != 130 {
			t.Errorf("exit code %d", code)
		}
	})
	t.Run("its process is killed", func(t *testing.T) {
		c := b.Command("run", "-q", "-i", pipe)
		keys, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer keys.Close()
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		id := strings.TrimSpace(b.Must("ps", "-q"))
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Wait() //nolint:errcheck // it was killed
		b.Must("supervise")
		if v := b.Await(id, 60*time.Second); v.State != "failed" || v.ExitCode != nil {
			t.Errorf("the run: %+v", v)
		}
		if text := b.Must("logs", id); strings.Contains(text, "all") {
			t.Errorf("it took a part of its input for all: %q", text)
		}
	})
}
