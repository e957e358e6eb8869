package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

var buildOnce = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("BEE_TEST_BINARY"); given != "" {
		return given, nil
	}
	dir, err := os.MkdirTemp("", "bee-test-binary-")
	if err != nil {
		return "", err
	}
	if err := removeAtEnd(dir); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "bee")
	c := exec.Command("go", "build", "-o", binary, "github.com/bee-hpc/bee/cmd/bee")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return binary, os.Chmod(dir, 0o755)
})

// untilTheEnd is closed by the end of this process, and not by the garbage collector.
var untilTheEnd io.Closer //nolint:unused // nothing else lives as long, and nobody reads it

// removeAtEnd has a directory removed when this process has ended, however it does:
// no test of it is the last to know.
func removeAtEnd(dir string) (err error) {
	c := exec.Command("/bin/sh", "-c", `trap '' HUP INT TERM; cat; rm -rf "$0"`, dir)
	untilTheEnd, err = c.StdinPipe()
	return errors.Join(err, c.Start())
}

// Binary is the bee binary under test: BEE_TEST_BINARY (as `make test` sets
// it), else one built once per test process.
func Binary(t testing.TB) string {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatalf("build bee: %v", err)
	}
	return binary
}

// Bee is one user's bee with state, cache and scratch of its own.
type Bee struct {
	t      testing.TB
	binary string
	// Dir holds everything; Work is where Beefiles lie and commands run.
	Dir, Work string
	// Env is added to the caller's environment.
	Env []string
}

// NewBee gives a fresh user's bee. When the test ends, it fails the test if
// the bee has left a process or a run directory behind.
func NewBee(t testing.TB) *Bee {
	t.Helper()
	dir := t.TempDir()
	b := &Bee{t: t, binary: Binary(t), Dir: dir, Work: filepath.Join(dir, "work")}
	cache := filepath.Join(dir, "cache")
	if shared := os.Getenv("BEE_TEST_CACHE"); shared != "" {
		cache = shared // images of applications are built once for all tests
	}
	b.Env = []string{
		"BEE_STATE=" + filepath.Join(dir, "state"), "BEE_CACHE=" + cache, "BEE_SCRATCH=" + filepath.Join(dir, "scratch"),
		"XDG_CONFIG_HOME=" + filepath.Join(dir, "config"), "HOME=" + dir, "BEE_SITES=", "BEE_STUDY_LOCKS=" + filepath.Join(dir, "studies"), "TEST_BEE_DIR=" + dir,
	}
	if err := os.MkdirAll(b.Work, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.CheckNothingLeft(20 * time.Second) })
	return b
}

// Oversubscribe lets runs of this bee begin at once, however many cores this machine has.
func (b *Bee) Oversubscribe() {
	b.Env = append(b.Env, "BEE_SITES="+b.File("oversubscribed.yaml", "sites: [{name: local, provider: local, oversubscribe: true}]\n"))
}

// Install gives this bee a program of its own in place of the one that it had, as an update
// does: the one under test, with a text at its end, so that its digest is another.
func (b *Bee) Install(text string) {
	b.t.Helper()
	raw, err := os.ReadFile(Binary(b.t))
	dir := filepath.Join(b.Dir, "program")
	to, beside := filepath.Join(dir, "bee"), filepath.Join(dir, "bee.new")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = core.WriteProgram(beside, append(raw, text...), 0o755)
	}
	if err == nil {
		err = os.Rename(beside, to)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.binary = to
}

// File writes a file below Work and gives its path.
func (b *Bee) File(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.Work, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// Read gives the text of a file below Work.
func (b *Bee) Read(name string) string {
	b.t.Helper()
	raw, err := os.ReadFile(filepath.Join(b.Work, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(raw)
}

// Result is how a command of bee ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Command makes a bee command that the caller starts.
func (b *Bee) Command(args ...string) *exec.Cmd {
	c := exec.Command(b.binary, args...)
	c.Dir, c.Env = b.Work, append(os.Environ(), b.Env...)
	return c
}

// Try runs bee and gives how it ended.
func (b *Bee) Try(args ...string) Result {
	b.t.Helper()
	c := b.Command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	defer stop()
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		b.t.Fatalf("bee %q: %v", args, err)
	}
	return Result{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

// Must runs bee, which has to end with code 0, and gives its standard output.
func (b *Bee) Must(args ...string) string {
	b.t.Helper()
	r := b.Try(args...)
	if r.Code != 0 {
		b.t.Fatalf("bee %q ended with %d\nstdout: %s\nstderr: %s", args, r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// Failure is an error of bee's as --json-errors has it, with the exit code.
type Failure struct {
	Code                  int
	Kind, Message, Remedy string
}

// Fail runs bee, which has to report an error, and returns that.
func (b *Bee) Fail(args ...string) Failure {
	b.t.Helper()
	r := b.Try(append([]string{"--json-errors"}, args...)...)
	f := Failure{Code: r.Code}
	for line := range strings.Lines(r.Stderr) {
		var v struct{ Error *Failure }
		if err := json.Unmarshal([]byte(line), &v); err == nil && v.Error != nil {
			f.Kind, f.Message, f.Remedy = v.Error.Kind, v.Error.Message, v.Error.Remedy
		}
	}
	if f.Code == 0 || f.Kind == "" {
		b.t.Fatalf("bee %q reported no error: %+v", args, r)
	}
	return f
}

// Events counts the events of a kind in the history of a run whose fields, as JSON, have all
// of some texts.
func Events[K ~string](b *Bee, run string, kind K, fields ...string) int {
	b.t.Helper()
	var v struct {
		History []struct {
			Kind   K
			Fields json.RawMessage
		}
	}
	b.JSON(&v, "show", "--json", run)
	n := 0
	for _, e := range v.History {
		var text bytes.Buffer
		if err := json.Compact(&text, e.Fields); err != nil {
			b.t.Fatal(err)
		}
		lacks := func(field string) bool { return !strings.Contains(text.String(), field) }
		if e.Kind == kind && !slices.ContainsFunc(fields, lacks) {
			n++
		}
	}
	return n
}

// Touch makes a file that a run's job waits for. The command may end with the job, by the
// signal that ends what is left in its container.
func (b *Bee) Touch(id, file string) {
	b.t.Helper()
	if r := b.Try("exec", id, "--", "touch", file); r.Code != 0 && r.Code != 128+int(unix.SIGTERM) && r.Code != 128+int(unix.SIGKILL) {
		b.t.Fatalf("touch %s in run %s ended with %d\nstderr: %s", file, id, r.Code, r.Stderr)
	}
}

// JSON runs bee, which has to end with code 0, and decodes what it writes.
func (b *Bee) JSON(into any, args ...string) {
	b.t.Helper()
	if err := json.Unmarshal([]byte(b.Must(args...)), into); err != nil {
		b.t.Fatalf("bee %q: %v", args, err)
	}
}

// RunView is what tests read of `bee show --json`.
type RunView struct {
	ID       string `json:"id"`
	State    string `json:"state"`
	ExitCode *int   `json:"exit_code"`
	Error    *struct{ Kind, Message, Remedy string }
	Attempts []struct {
		Site, Runtime string
		Hosts         []string
		Phases        map[string]float64
		ExitCode      *int   `json:"exit_code"`
		Answer        string `json:"checkpoint_answer"`
		Error         *struct{ Kind, Message, Remedy string }
		HostsEnd      string `json:"hosts_end"`
		Nodes         []struct {
			Cores           int
			MemoryKills     int    `json:"memory_kills"`
			MemoryUnlimited string `json:"memory_unlimited"`
		}
	}
}

// Await waits until a run is over and gives its record.
func (b *Bee) Await(run string, within time.Duration) RunView {
	b.t.Helper()
	var v RunView
	Eventually(b.t, within, func() error {
		b.JSON(&v, "show", "--json", run)
		if v.State == "queued" || v.State == "running" {
			return b.Explained(run, "it is "+v.State)
		}
		return nil
	})
	return v
}

// explained is an error with what bee reports of a run, once someone wants to know.
type explained struct {
	b        *Bee
	run, why string
}

func (e explained) Error() string {
	return "run " + e.run + ": " + e.why + "\n" + e.b.Try("show", e.run).Stdout + e.b.Try("logs", "--controller", e.run).Stdout + strings.Join(e.b.Processes(), "\n")
}

// Explained is an error that reports, when it is printed, what bee does of a run then.
func (b *Bee) Explained(run, why string) error { return explained{b, run, why} }

// Processes lists the processes that belong to this bee, by the mark in their
// environment or, for nodes and containers, by their run directory.
func (b *Bee) Processes() []string {
	entries, _ := os.ReadDir("/proc")
	var found []string
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		environ, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		command, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if bytes.Contains(environ, []byte("TEST_BEE_DIR="+b.Dir+"\x00")) || bytes.Contains(command, []byte(b.Dir)) {
			found = append(found, e.Name()+" "+string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// CheckNothingLeft fails the test if, after a while, a process, a mount or a
// run directory of this bee is still there.
func (b *Bee) CheckNothingLeft(within time.Duration) {
	b.t.Helper()
	Eventually(b.t, within, func() error {
		if p := b.Processes(); len(p) > 0 {
			return errors.New("process left: " + p[0])
		}
		mounts, _ := os.ReadFile("/proc/self/mounts")
		if bytes.Contains(mounts, []byte(b.Dir)) {
			return errors.New("mount left below " + b.Dir)
		}
		for _, pattern := range []string{"[^.]*", ".leases/*"} { // run directories, records of leases
			if left, _ := filepath.Glob(filepath.Join(b.Dir, "scratch", "bee", pattern)); len(left) > 0 {
				return errors.New("left behind: " + left[0] + "\n" + b.describe(left[0]))
			}
		}
		return nil
	})
}

// describe reports what is in a directory that was left, and what became of the
// run that it belongs to.
func (b *Bee) describe(dir string) string {
	listing, _ := exec.Command("find", dir, "-ls").CombinedOutput()
	text := string(listing)
	if id := filepath.Base(dir); len(id) == 8 {
		text += b.Try("show", id).Stdout + b.Try("logs", "--controller", id).Stdout
	}
	return text
}

// begun is where tests begin: in their package's directory, of the tree as the user
// who runs them may read it, which is not always the one that they were built from.
var begun, _ = os.Getwd() // a test may go elsewhere

// Begun is where this process's tests began: their package's directory.
func Begun() string { return begun }

// Root is the top of the source tree.
func Root(t testing.TB) string {
	t.Helper()
	for dir := begun; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("cannot find the source tree above " + begun)
	return ""
}
