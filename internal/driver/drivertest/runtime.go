package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/testkit"
)

// RuntimeSuite is what the conformance suite for runtimes needs to know.
type RuntimeSuite struct {
	// New gives the runtime under test.
	New func(t testing.TB) driver.Runtime
	// Binary is the bee binary; it has to be linked statically.
	Binary string
	// SharedUTS means that containers keep the host's name.
	SharedUTS bool
	// NamespaceRoot means that root inside keeps the rights of its own user
	// namespace, such as to mount, which are none outside of it.
	NamespaceRoot bool
	// OwnKernel means that containers have a kernel of their own: its network,
	// memory and processes are not the host's.
	OwnKernel bool
	// Memory means that the runtime limits the memory of containers on this host.
	Memory bool
	// Inherits means that limits of resources are those of who starts containers.
	Inherits bool
	// Scratch means that what containers write is in memory, unless
	// ContainerSpec.DiskScratch asks for a disk.
	Scratch bool
	// Strangers means that the accounts in a container may not have the caller.
	Strangers bool
	// Filters means that containers have a filter of system calls without asking for one.
	Filters bool
	// Only names the cases to run; none: all.
	Only []string
	// Names returns the names of all containers, running or not, that carry the label of
	// an owner; nil: what is left of one is to be seen by its processes and mounts alone.
	Names func(t testing.TB, o core.Owner) []string
	// AtOnce is the number of containers to start at the same time; 0 is 4.
	AtOnce int

	image  driver.LocalImage
	shared *shared
}

// Run runs the suite.
func (s RuntimeSuite) Run(t *testing.T) {
	s.image = localImage(t)
	if err := s.New(t).Prepare(t.Context(), s.image); err != nil {
		t.Fatal(err)
	}
	type test struct {
		name string
		run  func(t *testing.T)
	}
	ran := 0
	run := func(tests []test) {
		for _, test := range tests {
			if s.Only == nil || slices.Contains(s.Only, test.name) {
				t.Run(test.name, test.run)
				ran++
			}
		}
	}
	s.shared = &shared{suite: s, t: t}
	inside, mounted := insideTests{s}, directoryTests{s}
	// These leave a container as it is, and have one together.
	run([]test{
		{"Exec", s.exec},
		{"Inherited", s.inherited},
		{"Sockets", s.sockets},
		{"Codes", s.codes},
		{"Signals", inside.signals},
		{"Terminal", s.terminal},
		{"Identity", inside.identity},
		{"Limits", inside.limits},
		{"Names", inside.names},
		{"Confined", inside.confined},
		{"SharedMemory", inside.sharedMemory},
		{"Orphans", inside.orphans},
		{"Use", inside.use},
		{"BigOutput", inside.bigOutput},
		{"Apart", inside.apart},
	})
	s.shared.end()
	run([]test{
		{"Probe", s.probe},
		{"User", inside.user},
		{"Odd", s.unusual},
		{"LinksOut", s.linksOut},
		{"JobLinks", s.jobLinks},
		{"Mounts", inside.mounts},
		{"Paths", inside.paths},
		{"Cores", s.cores},
		{"Memory", s.memory},
		{"SiteDirectories", mounted.mounted},
		{"SiteDirectoryRootMayNotRead", mounted.rootMayNotRead},
		{"SiteDirectoryOwner", mounted.owner},
		{"SiteDirectoryReplaced", mounted.replaced},
		{"SiteDirectoryBelow", mounted.below},
		{"Devices", s.devices},
		{"Scratch", inside.scratch},
		{"Filter", s.filter},
		{"Stop", s.stop},
		{"AtOnce", inside.atOnce},
		{"Root", inside.root},
		{"KillOwner", s.killOwner},
	})
	if s.Only != nil && ran != len(s.Only) {
		t.Errorf("the suite has %d of the cases %q", ran, s.Only)
	}
}

// shared is the container that cases have together, from the first that asks for it.
type shared struct {
	suite RuntimeSuite
	t     *testing.T // of them all
	spec  driver.ContainerSpec
	box   driver.Container
}

func (s *shared) start() (driver.Container, driver.ContainerSpec) {
	s.t.Helper()
	if s.box == nil {
		s.spec = s.suite.spec(s.t)
		s.box = s.suite.start(s.t, s.spec)
	}
	return s.box, s.spec
}

func (s *shared) end() {
	if s.box == nil {
		return
	}
	if err := s.box.Stop(s.t.Context(), 2*time.Second); err != nil {
		s.t.Error(err)
	}
}

// Frozen has freeze stop the machine that a container runs in, and wants the
// container's end.
func (s RuntimeSuite) Frozen(t *testing.T, freeze func()) {
	s.image = localImage(t)
	box := s.start(t, s.spec(t))
	p := sleeper(t, box)
	freeze()
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	if exit, err := box.Wait(ctx); err != nil || exit.Code != 137 {
		t.Errorf("the container: %+v, %v", exit, err)
	}
	if _, err := p.Wait(ctx); !core.IsKind(err, core.Lost) {
		t.Errorf("its process: %v", err)
	}
	if why := box.Guest().Ended(); !strings.Contains(why, "answered nothing") {
		t.Errorf("it ended because: %s", why)
	}
}

// Held has hold halt the runtime's daemon, and wants a container to
// be given up in time, its processes gone, and nothing left once released was called.
func (s RuntimeSuite) Held(t *testing.T, hold, released func() error) {
	s.image = localImage(t)
	rt := s.New(t)
	if err := rt.Prepare(t.Context(), s.image); err != nil {
		t.Fatal(err)
	}
	c := s.spec(t)
	box := s.start(t, c)
	p := sleeper(t, box)
	if err := hold(); err != nil {
		t.Fatal(err)
	}
	defer released() //nolint:errcheck // again, where the test ends early
	stopped := make(chan error, 1)
	go func() { stopped <- box.Stop(context.Background(), time.Second) }()
	select {
	case err := <-stopped:
		if !core.IsKind(err, core.Transient) || !strings.Contains(core.Remedy(err), c.Name) {
			t.Errorf("stop, while the daemon stands still: %v; %s", err, core.Remedy(err))
		}
	case <-time.After(suiteTimeout):
		t.Fatal("stop waits for a daemon that stands still")
	}
	if exit, err := p.Wait(t.Context()); err == nil && exit.Signal == 0 {
		t.Errorf("what ran in it: %+v", exit)
	}
	if err := released(); err != nil {
		t.Fatal(err)
	}
	s.goes(t, c.Owner)
}

// goes waits until there is no container of an owner.
func (s RuntimeSuite) goes(t *testing.T, o core.Owner) {
	t.Helper()
	if s.Names == nil {
		return
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if left := s.Names(t, o); len(left) > 0 {
			return fmt.Errorf("still there: %q", left)
		}
		return nil
	})
}

// suiteTimeout is what any one thing may take, on a loaded machine too.
const suiteTimeout = 10 * time.Minute

var counter struct {
	sync.Mutex
	n int
}

func (s RuntimeSuite) spec(t testing.TB) driver.ContainerSpec {
	t.Helper()
	counter.Lock()
	counter.n++
	n := counter.n
	counter.Unlock()
	dir, err := os.MkdirTemp("", "bee-rt-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("a file was left that its user cannot remove: %v", err)
		}
	})
	name := fmt.Sprintf("bee-suite-%d-%d", os.Getpid(), n)
	c := driver.ContainerSpec{
		Owner: core.Owner{User: fmt.Sprintf("suite%d", os.Getpid()), Run: fmt.Sprint("run", n), Attempt: 1}, Name: name, Image: s.image,
		Hostname: "suite-host", Env: []string{"PATH=/bin:/usr/bin", "FROM_SPEC=1"}, Hosts: []string{"10.9.8.7 other-host other-alias"},
		StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Binary: s.Binary,
		Mounts: []driver.Mount{{Source: filepath.Join(dir, "work"), Target: "/work"}, {Source: filepath.Join(dir, "fixed"), Target: "/a/deep/fixed", ReadOnly: true}},
	}
	for _, d := range []string{"state", "run", "work", "fixed"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "fixed", "text"), []byte("fixed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s RuntimeSuite) start(t testing.TB, c driver.ContainerSpec) driver.Container {
	t.Helper()
	box, err := s.try(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// startUnlessRefused is start for a container that a runtime may refuse with a remedy; nil: it does.
func (s RuntimeSuite) startUnlessRefused(t testing.TB, c driver.ContainerSpec) driver.Container {
	t.Helper()
	box, err := s.try(t, c)
	if core.IsKind(err, core.Unsupported) && core.Remedy(err) != "" {
		t.Logf("refused, with a remedy: %v", err)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// try starts a container, which ends with the test.
func (s RuntimeSuite) try(t testing.TB, c driver.ContainerSpec) (driver.Container, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	box, err := s.New(t).Start(ctx, c)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := box.Stop(context.Background(), 2*time.Second); err != nil {
			t.Error(err)
		}
	})
	return box, nil
}

// sleeper is a process in a container that does not end by itself.
func sleeper(t testing.TB, box driver.Container) driver.Process {
	t.Helper()
	p, err := box.Exec(t.Context(), driver.Command{Args: []string{"sleep", "1000"}, Env: []string{"PATH=/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// result is how a command in a container ended.
type result struct {
	out, err string
	exit     core.Exit
}

// run runs a command to its end, with stdin from text.
func run(t testing.TB, box driver.Container, stdin string, cmd driver.Command) result {
	t.Helper()
	r, err := tryRun(t.Context(), box, stdin, cmd)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryRun(ctx context.Context, box driver.Container, stdin string, cmd driver.Command) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, suiteTimeout)
	defer cancel()
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=/bin:/usr/bin"}
	}
	var r result
	inR, inW, err1 := os.Pipe()
	outR, outW, err2 := os.Pipe()
	errR, errW, err3 := os.Pipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return r, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	p, err := box.Exec(ctx, cmd)
	inR.Close()
	outW.Close()
	errW.Close()
	defer outR.Close()
	defer errR.Close()
	if err != nil {
		inW.Close()
		return r, err
	}
	var all sync.WaitGroup
	var out, errs bytes.Buffer
	all.Go(func() { io.WriteString(inW, stdin); inW.Close() })
	all.Go(func() { io.Copy(&out, outR) })
	all.Go(func() { io.Copy(&errs, errR) })
	r.exit, err = p.Wait(ctx)
	all.Wait()
	r.out, r.err = out.String(), errs.String()
	return r, err
}

func shell(script string) driver.Command { return driver.Command{Args: []string{"sh", "-c", script}} }

// want runs a script that has to end with code 0 and gives its output.
func want(t testing.TB, box driver.Container, script string) string {
	t.Helper()
	r := run(t, box, "", shell(script))
	if r.exit.Code != 0 {
		t.Fatalf("%s: ended with %d: %s", script, r.exit.Code, r.err)
	}
	return strings.TrimSpace(r.out)
}

func (s RuntimeSuite) probe(t *testing.T) {
	facts, err := s.New(t).Probe(t.Context())
	if err != nil || !facts.Usable {
		t.Fatalf("probe: %+v, %v", facts, err)
	}
}

func (s RuntimeSuite) exec(t *testing.T) {
	box, _ := s.shared.start()
	r := run(t, box, "line in\n", shell("cat; echo to-err >&2"))
	if r.out != "line in\n" || r.err != "to-err\n" || r.exit.Code != 0 {
		t.Errorf("streams: %+v", r)
	}
	r = run(t, box, "", driver.Command{Args: []string{"env"}, Env: []string{"PATH=/bin", "A=1", "EMPTY=", "LINES=a\nb"}})
	if want := "PATH=/bin\nA=1\nEMPTY=\nLINES=a\nb\n"; r.out != want {
		t.Errorf("environment is %q, not exactly %q", r.out, want)
	}
	r = run(t, box, "", driver.Command{Args: []string{"pwd"}, Dir: "/work/new/dir"})
	if strings.TrimSpace(r.out) != "/work/new/dir" {
		t.Errorf("working directory %q: %s", r.out, r.err)
	}
	r = run(t, box, "", driver.Command{Args: []string{"sh", "-c", "echo kept > exec.txt; cat /work/exec.txt"}, Dir: "/work"})
	if r.out != "kept\n" {
		t.Errorf("a relative name in the volume: %+v", r)
	}
	if r := run(t, box, "", driver.Command{Args: []string{"/.bee/bee", "version"}}); r.exit.Code != 0 {
		t.Errorf("/.bee/bee: %+v", r)
	}
	want(t, box, "test -x /.bee/rsh && ! touch /.bee/bee")
}

func (s RuntimeSuite) codes(t *testing.T) {
	box, _ := s.shared.start()
	for script, code := range map[string]int{"exit 0": 0, "exit 1": 1, "exit 42": 42, "exit 255": 255, "kill -9 $$": 137, "no-such-program": 127} {
		if r := run(t, box, "", shell(script)); r.exit.Code != code {
			t.Errorf("%s: code %d, want %d", script, r.exit.Code, code)
		}
	}
	for name, code := range map[string]int{"no-such-program": 127, "/no/such": 127, "/etc/passwd": 126, "/etc": 126} {
		_, err := tryRun(t.Context(), box, "", driver.Command{Args: []string{name}})
		if e, ok := errors.AsType[*pid1.StartError](err); !ok || e.Code != code {
			t.Errorf("%s: %v, want a StartError with code %d", name, err, code)
		}
	}
}

func (s RuntimeSuite) stop(t *testing.T) {
	// A process's peak of memory begins with that of its parent, which had images in hand.
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	box := s.start(t, s.spec(t))
	worked := run(t, box, "", driver.Command{Args: []string{"sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"}}).exit
	p := sleeper(t, box)
	const grace = time.Minute // which what ends when asked does not take, not even in an emulated guest of a busy host
	begin := time.Now()
	for range 2 {
		if err := box.Stop(t.Context(), grace); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > grace {
		t.Errorf("stopping took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	used, err := box.Wait(ctx)
	if err != nil {
		t.Error(err)
	}
	// It is what the processes have used, and not a virtual machine or an engine's client.
	const little, small = 5 * time.Second, 200 << 20
	if u := used.UserTime; u < worked.UserTime || u > worked.UserTime+little || worked.UserTime == 0 || used.MaxRSS == 0 || used.MaxRSS > small {
		t.Errorf("processes that have used %+v are reported to have used %+v", worked, used)
	}
	if exit, err := p.Wait(ctx); err == nil && exit.Signal == 0 || ctx.Err() != nil {
		t.Errorf("the process after stop: %+v, %v", exit, err)
	}
	if _, err := box.Exec(ctx, driver.Command{Args: []string{"true"}}); err == nil {
		t.Error("a stopped container executes")
	}
}
