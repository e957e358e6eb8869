package virtualbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit/virtualboxfake"
)

// TestFaults: each call fails, prints what it should not, or floods. The error has a kind and a remedy, and nothing is
// left once VBoxManage works again.
func TestFaults(t *testing.T) {
	const lie = "\"stranger\" {no-uuid}"
	for _, c := range []struct{ verb, kind string }{
		{"--version", "fail"},
		{"--version", "7"},
		{"list vms", "fail"},
		{"list vms", lie},
		{"list vms", "flood"},
		{"showvminfo", "fail"},
		{"showvminfo", "VMState=\"poweroff\"\ncpus=1000000000000\nmemory=1"},
		{"showvminfo", "VMState=\"poweroff\"\ncpus=1\nmemory=9223372036854775807"},
		{"showvminfo", ""},
		{"showvminfo", "flood"},
		{"clonevm", "fail"},
		{"clonevm", "done"}, // it says so, and has made nothing
		{"modifyvm", "fail"},
		{"modifyvm", "done"},
		{"storagectl", "fail"},
		{"storagectl", "done"},
		{"storageattach", "fail"},
		{"storageattach", "done"},
		{"startvm", "fail"},
		{"list runningvms", "fail"},
	} {
		f := virtualboxfake.New(t, nil)
		s := settings(t, f, t.TempDir())
		p := newSite(t, s)
		kind := c.kind
		if kind == "" {
			kind = "\n"
		}
		f.Fault(t, c.verb, kind)
		if c.verb == "list runningvms" { // only a guest that does not answer is looked for
			p.s.Reach = func(Connection) (driver.Provider, error) { return silent{}, nil }
		}
		_, err := p.Acquire(t.Context(), request("faulty"))
		if err == nil {
			t.Errorf("%s, %s: a guest was made", c.verb, c.kind)
			continue
		}
		if core.Remedy(err) == "" {
			t.Errorf("%s, %s: no remedy: %v", c.verb, c.kind, err)
		}
		f.Fault(t, "", "")
		if err := driver.ReleaseOwned(t.Context(), p, core.Owner{User: "u"}, "u"); err != nil {
			t.Errorf("%s, %s: %v", c.verb, c.kind, err)
		}
		f.WantNothingLeft(t, s.Dir)
	}
}

// TestEndFails: a guest that VirtualBox does not power off, or does not delete, is no success, and is ended by the next
// release.
func TestEndFails(t *testing.T) {
	for _, c := range []struct{ verb, kind string }{
		{"controlvm poweroff", "fail"}, {"controlvm poweroff", "done"}, {"unregistervm", "fail"}, {"unregistervm", "done"}, {"list vms", "fail"}, {"list runningvms", "flood"},
	} {
		f := virtualboxfake.New(t, nil)
		s := settings(t, f, t.TempDir())
		p := newSite(t, s)
		p.ends = 300 * time.Millisecond
		l, err := p.Acquire(t.Context(), request("stays"))
		if err != nil {
			t.Fatal(err)
		}
		f.Fault(t, c.verb, c.kind)
		if err := l.Release(t.Context()); !core.IsKind(err, core.Transient) || core.Remedy(err) == "" {
			t.Errorf("%s, %s: got %v", c.verb, c.kind, err)
		}
		f.Fault(t, "", "")
		p.ends = endTime
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("%s, %s: the next release: %v", c.verb, c.kind, err)
		}
		f.WantNothingLeft(t, s.Dir)
	}
}

// silent is a guest that never answers.
type silent struct{ drivertest.BareProvider }

func (silent) Info() driver.Info { return driver.Info{} }
func (silent) Probe(context.Context) (driver.Facts, error) {
	return driver.Facts{Passing: true, Reason: "connection refused"}, nil
}

func (silent) Acquire(context.Context, driver.Request) (driver.Lease, error) {
	return nil, errors.New("it does not answer")
}

func (silent) Recover(context.Context, core.Handle) (driver.Lease, error) {
	return nil, errors.New("it does not answer")
}
func (silent) List(context.Context, core.Owner) ([]core.Handle, error) { return nil, nil }

// TestSilentGuest: a guest that does not answer in time, or ends, is deleted, and the error names which.
func TestSilentGuest(t *testing.T) {
	for kind, ends := range map[core.Kind]bool{core.Transient: false, core.Lost: true} {
		f := virtualboxfake.New(t, nil)
		s := settings(t, f, t.TempDir())
		s.Boot = 10 * time.Millisecond
		s.Reach = func(Connection) (driver.Provider, error) {
			if ends {
				state := f.Read(t)
				state.Machines[1].State = "aborted"
				f.Write(t, state)
			}
			return silent{}, nil
		}
		if _, err := newSite(t, s).Acquire(t.Context(), request("silent")); !core.IsKind(err, kind) || core.Remedy(err) == "" {
			t.Errorf("expected an error of kind %s, got %v", kind, err)
		}
		f.WantNothingLeft(t, s.Dir)
	}
}

// TestInterrupted: Ctrl-C while VBoxManage hangs ends the call, and nothing is left.
func TestInterrupted(t *testing.T) {
	for _, verb := range []string{"clonevm", "startvm"} {
		f := virtualboxfake.New(t, nil)
		s := settings(t, f, t.TempDir())
		f.Fault(t, verb, "hang")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := newSite(t, s).Acquire(ctx, request("interrupted"))
			ended <- err
		}()
		f.Eventually(t, verb+" is called", func(s *virtualboxfake.State) bool {
			return slices.ContainsFunc(s.Calls, func(c []string) bool { return c[0] == verb })
		})
		cancel()
		if err := <-ended; !core.Interrupted(err) {
			t.Errorf("%s: got %v", verb, err)
		}
		f.WantNothingLeft(t, s.Dir)
	}
}

// TestHangs: a call that does not end within its time is ended, though it ignores that.
func TestHangs(t *testing.T) {
	f := virtualboxfake.New(t, nil)
	f.Fault(t, "--version", "stubborn")
	p := program{path: f.Program}
	begun := time.Now()
	_, err := p.call(t.Context(), 50*time.Millisecond, versionLine())
	if !core.IsKind(err, core.Transient) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took < cancelTime {
		t.Errorf("it was killed after %v, and not asked to end before", took)
	}
}

// TestKilledWhileItCalls: VBoxManage ends with the process that has called it, else it would make a guest that nobody
// knows of.
func TestKilledWhileItCalls(t *testing.T) {
	f := virtualboxfake.New(t, nil)
	f.Fault(t, "--version", "hang")
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	c := exec.Command(os.Args[0], callArg, f.Program)
	c.ExtraFiles = []*os.File{to} // VBoxManage has it, too
	err = c.Start()
	to.Close()
	if err != nil {
		t.Fatal(err)
	}
	f.Eventually(t, "it is called", func(s *virtualboxfake.State) bool { return len(s.Calls) > 0 })
	c.Process.Kill()
	core.BestEffort(c.Wait()) // it was killed
	from.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := from.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("it lives on: %v", err)
	}
}

// TestSnapshotThatShares: a machine shares no directory any more, and its snapshot does.
func TestSnapshotThatShares(t *testing.T) {
	f := virtualboxfake.New(t, func(s *virtualboxfake.State) { s.Machines[0].SnapshotShared = []string{"home"} })
	s := settings(t, f, t.TempDir())
	s.Snapshot = "clean"
	if _, err := newSite(t, s).Acquire(t.Context(), request("shares")); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
	if slices.Contains(f.Verbs(t), "startvm") {
		t.Error("its guest was started")
	}
	f.WantNothingLeft(t, s.Dir)
}

// TestReleaseOfAGuestWithoutFiles: VirtualBox forgets it.
func TestReleaseOfAGuestWithoutFiles(t *testing.T) {
	f := virtualboxfake.New(t, nil)
	s := settings(t, f, t.TempDir())
	l, err := newSite(t, s).Acquire(t.Context(), request("lost"))
	if err != nil {
		t.Fatal(err)
	}
	state := f.Read(t)
	state.Machines[1].Name, state.Machines[1].State, state.Machines[1].PID = inaccessible, "poweroff", 0
	f.Write(t, state)
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	state = f.Read(t)
	if last := state.Calls[len(state.Calls)-2]; len(state.Machines) != 1 || last[0] != "unregistervm" || slices.Contains(last, "--delete") {
		t.Errorf("%d machines are left, after %v", len(state.Machines), last)
	}
}

// crashing is a VBoxManage whose caller is killed before or after one of its calls.
type crashing struct {
	program
	left  int
	after bool
}

var errCrash = errors.New("killed")

func (c *crashing) call(ctx context.Context, limit time.Duration, l line) (string, error) {
	if c.left--; c.left == 0 && !c.after {
		panic(errCrash)
	}
	text, err := c.program.call(ctx, limit, l)
	if c.left == 0 {
		panic(errCrash)
	}
	return text, err
}

func crashes(t *testing.T, f func() error) (crashed bool) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			if v != errCrash { //nolint:errorlint // the very value
				panic(v)
			}
			crashed = true
		}
	}()
	if err := f(); err != nil {
		t.Error(err)
	}
	return false
}

// TestCrashAtEachCall kills bee at each call of Acquire and of Release. A repeated Acquire has one guest, and a release by
// what is on the disk leaves nothing.
func TestCrashAtEachCall(t *testing.T) {
	for _, after := range []bool{false, true} {
		f := virtualboxfake.New(t, nil)
		s := settings(t, f, t.TempDir())
		s.Snapshot = "clean"
		site := func(n int) *provider {
			p := newSite(t, s)
			p.vbox = &crashing{program{f.Program}, n, after}
			return p
		}
		acquire := func(p *provider) func() error {
			return func() error { _, err := p.Acquire(t.Context(), request("crash")); return err }
		}
		for n, crashed := 1, true; crashed; n++ {
			if after && n%2 == 1 { // what follows a call is mostly what precedes the next
				continue
			}
			crashed = crashes(t, acquire(site(n)))
			if n%3 == 0 {
				crashes(t, acquire(site(0)))
				if machines := f.Read(t).Machines; len(machines) != 2 || machines[1].State != "running" {
					t.Errorf("after a crash at call %d there are %d machines", n, len(machines))
				}
			}
			for m, again := 1, n%4 == 0; again; m++ {
				again = crashes(t, func() error { return driver.ReleaseOwned(t.Context(), site(m), core.Owner{User: "u"}, "u") })
			}
			crashes(t, func() error { return driver.ReleaseOwned(t.Context(), site(0), core.Owner{User: "u"}, "u") })
			f.WantNothingLeft(t, s.Dir)
		}
	}
}

// TestRelease: what the user has made of a guest is kept, and a guest that another VirtualBox has is not forgotten.
func TestRelease(t *testing.T) {
	f := virtualboxfake.New(t, nil)
	s := settings(t, f, t.TempDir())
	p := newSite(t, s)
	l, err := p.Acquire(t.Context(), request("kept"))
	if err != nil {
		t.Fatal(err)
	}
	state := f.Read(t)
	name := state.Machines[1].Name
	state.Machines[1].Name = "mine now"
	f.Write(t, state)
	if err := l.Release(t.Context()); !core.IsKind(err, core.Transient) || len(f.Read(t).Machines) != 2 {
		t.Errorf("a renamed guest: %v", err)
	}
	others := f.Read(t).Machines
	others[1].Name = name
	state = f.Read(t)
	state.Machines = nil
	f.Write(t, state)
	if err := l.Release(t.Context()); !core.IsKind(err, core.Transient) {
		t.Errorf("the machines of another place: %v", err)
	}
	state.Machines = others
	f.Write(t, state)
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Errorf("status %+v, %v", st, err)
	}
	state.Machines[1].State, state.Machines[1].PID = "poweroff", 0 // this machine was started again
	f.Write(t, state)
	if st, err := l.Status(t.Context()); err != nil || st.Live || st.Reason == "" {
		t.Errorf("status %+v, %v", st, err)
	}
	if _, err := p.Recover(t.Context(), l.Handle()); !core.IsKind(err, core.NotFound) {
		t.Errorf("recovered a guest that does not run: %v", err)
	}
	f.WantNothingLeft(t, s.Dir)
}
