package virtualbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/provider/local"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/provider/ssh/agent"
	"github.com/bee-hpc/bee/internal/sshlink"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/bee-hpc/bee/internal/testkit/virtualboxfake"
)

// TestMain lets the test binary be VBoxManage, a guest's network, and what the bee binary is in a guest.
func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	if code, meant := virtualboxfake.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case callArg:
			if _, err := (program{os.Args[2]}).call(context.Background(), cloneTime, versionLine()); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		case drivertest.NodeArg:
			os.Exit(drivertest.StandInNode())
		case sshlink.RemoteArg:
			os.Exit(agent.Agent{
				Store: func(dir string) driver.Store { return dirstore.Store(dir) },
				Provider: func(raw json.RawMessage, _ environ.Lookup) (driver.Provider, error) {
					s := local.Settings{NodeArgv: drivertest.NodeArgv(), HasImage: func(_, id string) bool { return id == "here" }}
					if err := json.Unmarshal(raw, &s); err != nil {
						return nil, err
					}
					return local.New(s)
				},
			}.Main())
		}
	}
	os.Exit(m.Run())
}

// callArg has the test binary call a VBoxManage.
const callArg = "call-virtualbox"

const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs3mXn0cVhQKpVq2rO1Lk4Yy9xqf3u2v0c5mQ7aZ1aB"

// settings of a site of the stand-in whose guests are this machine.
func settings(t testing.TB, f *virtualboxfake.Fake, dir string) Settings {
	t.Helper()
	scratch := t.TempDir()
	return Settings{
		Name: "vbox", Dir: dir, Base: virtualboxfake.BaseName, User: "u", HostKey: testKey + " root@guest", Program: f.Program, Boot: 10 * time.Second,
		Reach: func(Connection) (driver.Provider, error) {
			return local.New(local.Settings{Name: "guest", Scratch: scratch, NodeArgv: drivertest.NodeArgv()})
		},
	}
}

func newSite(t testing.TB, s Settings) *provider {
	t.Helper()
	p, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*provider)
}

func request(run string) driver.Request {
	return driver.Request{Owner: core.Owner{User: "u", Run: run, Attempt: 1}, Nodes: 1}
}

// TestConformance has a guest of the stand-in reached by the real ssh, through its forwarded port.
func TestConformance(t *testing.T) {
	farm := sshfarm.Start(t, 1)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(farm.Dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := virtualboxfake.New(t, func(s *virtualboxfake.State) {
		s.Farm, s.Addr = filepath.Join(farm.Dir, "emulated"), farm.Addrs[0]+":2222"
		s.Machines[0].CPUs, s.Machines[0].MiB = runtime.NumCPU(), 4096
	})
	s := settings(t, f, t.TempDir())
	s.User, s.HostKey, s.Snapshot = me.Username, string(key), "clean"
	s.Reach = func(c Connection) (driver.Provider, error) {
		options := c.Options()
		options["IdentityFile"], options["IdentitiesOnly"], options["IdentityAgent"] = filepath.Join(farm.Dir, "user"), "yes", "none"
		return ssh.New(ssh.Settings{
			Name: "vbox", Hosts: []string{c.Host()}, Options: options,
			Site: func(string) json.RawMessage {
				// The host stands in for all guests, each of which has a disk of its own.
				return fmt.Appendf(nil, `{"Name": "vbox", "Scratch": %q}`, filepath.Join(farm.Private, "bee-h0", fmt.Sprint(c.Port)))
			},
			BinaryFor: func(arch string) (string, error) {
				if arch == runtime.GOARCH {
					return self, nil
				}
				return "", os.ErrNotExist
			},
		})
	}
	drivertest.ProviderSuite{Nodes: 1, Rented: true, Free: true, New: func(t testing.TB) driver.Provider { return newSite(t, s) }}.Run(t)
	f.WantNothingLeft(t, s.Dir)

	s.HostKey = testKey // another machine answers at the port
	if _, err := newSite(t, s).Acquire(t.Context(), request("other")); err == nil || core.Remedy(err) == "" || !core.IsKind(err, core.Unsupported) {
		t.Errorf("a guest with another key: %v, remedy %q", err, core.Remedy(err))
	}
	f.WantNothingLeft(t, s.Dir)
}

// TestCommandLines holds all calls of a lease, from its first to its last, to golden files.
func TestCommandLines(t *testing.T) {
	for name, change := range map[string]func(*Settings, *virtualboxfake.State){
		"virtio-of-a-snapshot": func(s *Settings, _ *virtualboxfake.State) {
			s.Snapshot, s.CPUs, s.Memory = "clean", 2, 4<<30
		},
		"emulated-of-a-whole-machine": func(s *Settings, f *virtualboxfake.State) {
			s.Devices, s.Base, f.Version = Emulated, strings.ToUpper(virtualboxfake.BaseUUID), "6.1.50_Debianr161033"
		},
		"emulated-of-a-machine-with-virtio": func(s *Settings, f *virtualboxfake.State) {
			s.Devices = Emulated
			m := f.Machines[0]
			m.Card, m.Controllers, m.Disks[0].Controller = virtioCard, [][2]string{{"VirtIO", virtioDisk}}, "VirtIO"
			m.Others, m.Forwardings = []int{2, 5}, []string{"ssh,tcp,127.0.0.1,2222,,22", "bee-ssh,tcp,,2223,,22"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s Settings
			f := virtualboxfake.New(t, nil)
			s = settings(t, f, t.TempDir())
			state := f.Read(t)
			change(&s, state)
			f.Write(t, state)
			l, err := newSite(t, s).Acquire(t.Context(), request("golden"))
			if err != nil {
				t.Fatal(err)
			}
			r := l.(*lease).r
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.WantNothingLeft(t, s.Dir)
			var text strings.Builder
			for _, c := range f.Read(t).Calls {
				for i := range c {
					if c[i] == virtualboxfake.BaseName {
						t.Errorf("a name of the user's reaches the command line: %q", c)
					}
					if strings.ContainsAny(c[i], " ") {
						c[i] = fmt.Sprintf("%q", c[i])
					}
				}
				text.WriteString("VBoxManage " + strings.Join(c, " ") + "\n")
			}
			testkit.Golden(t, name, strings.NewReplacer(
				virtualboxfake.BaseUUID, "MACHINE", virtualboxfake.SnapshotUUID, "SNAPSHOT", r.Guest.UUID, "GUEST", r.Guest.Name, "NAME", s.Dir, "DIR", fmt.Sprintf(",%d,", r.Port), ",PORT,",
				"bbbbbbbb-2222-4333-8444-000000000040", "DISK",
			).Replace(text.String()))
		})
	}
}

// TestUnusable names what is wrong with the machine, before anything is made.
func TestUnusable(t *testing.T) {
	var texts strings.Builder
	for _, c := range []struct {
		name   string
		change func(*Settings, *virtualboxfake.State)
	}{
		{"no VirtualBox", func(s *Settings, _ *virtualboxfake.State) { s.Program = "/none/VBoxManage" }},
		{"too old", func(_ *Settings, f *virtualboxfake.State) { f.Version = "6.0.24r139119" }},
		{"no such machine", func(s *Settings, _ *virtualboxfake.State) { s.Base = "--help\x1b[2J" }},
		{"two of a name", func(_ *Settings, f *virtualboxfake.State) {
			m := *f.Machines[0]
			m.UUID = "22222222-2222-4333-8444-555555555555"
			f.Machines = append(f.Machines, &m)
		}},
		{"it runs", func(_ *Settings, f *virtualboxfake.State) { f.Machines[0].State = "running" }},
		{"no such snapshot", func(s *Settings, _ *virtualboxfake.State) { s.Snapshot = "--options" }},
		{"two snapshots of a name", func(s *Settings, f *virtualboxfake.State) {
			s.Snapshot = "clean"
			f.Machines[0].Snapshots = append(f.Machines[0].Snapshots, [2]string{"clean", virtualboxfake.BaseUUID})
		}},
		{"no disk", func(_ *Settings, f *virtualboxfake.State) { f.Machines[0].Disks = nil }},
		{"a shared directory", func(_ *Settings, f *virtualboxfake.State) { f.Machines[0].Shared = []string{"home"} }},
		{"a controller like an option", func(_ *Settings, f *virtualboxfake.State) {
			f.Machines[0].Controllers, f.Machines[0].Disks[0].Controller = [][2]string{{"--remove", emulatedDisk}}, "--remove"
		}},
		{"a forwarding like a file of arguments", func(_ *Settings, f *virtualboxfake.State) {
			f.Machines[0].Forwardings = []string{"@/etc/passwd,tcp,,1,,2"}
		}},
	} {
		f := virtualboxfake.New(t, nil)
		s, state := settings(t, f, t.TempDir()), f.Read(t)
		c.change(&s, state)
		f.Write(t, state)
		p := newSite(t, s)
		facts, err := p.Probe(t.Context())
		if err != nil || facts.Usable || facts.Reason == "" || facts.Remedy == "" {
			t.Errorf("%s: %+v, %v", c.name, facts, err)
		}
		fmt.Fprintf(&texts, "%s: %s. %s\n", c.name, facts.Reason, facts.Remedy)
		if _, err := p.Acquire(t.Context(), request("refused")); err == nil || err.Error() != facts.Reason {
			t.Errorf("%s: the reasons are %v and %s", c.name, err, facts.Reason)
		}
		if verbs := f.Verbs(t); slices.ContainsFunc(verbs, func(v string) bool { return v == "clonevm" || v == "modifyvm" }) {
			t.Errorf("%s: VBoxManage was called for %v", c.name, verbs)
		}
		f.WantNothingLeft(t, s.Dir)
	}
	testkit.Golden(t, "unusable", texts.String())
}

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

// TestSettings refuses values that no site may have.
func TestSettings(t *testing.T) {
	f := virtualboxfake.New(t, nil)
	for name, change := range map[string]func(*Settings){
		"no machine":         func(s *Settings) { s.Base = "" },
		"devices":            func(s *Settings) { s.Devices = "scsi" },
		"a user like option": func(s *Settings) { s.User = "-oProxyCommand=id" },
		"no key":             func(s *Settings) { s.HostKey = "" },
		"two lines of keys":  func(s *Settings) { s.HostKey = "ssh-ed25519\n* ssh-ed25519 AAAA" },
		"cores":              func(s *Settings) { s.CPUs = 65 },
		"memory":             func(s *Settings) { s.Memory = 1 },
		"boot":               func(s *Settings) { s.Boot = -1 },
	} {
		s := settings(t, f, t.TempDir())
		change(&s)
		if _, err := New(s); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseInfo(f *testing.F) {
	f.Add((&virtualboxfake.Machine{Name: "x", UUID: virtualboxfake.BaseUUID, State: "poweroff", CPUs: 1, MiB: 1, Controllers: [][2]string{{"SATA", emulatedDisk}}, Disks: []virtualboxfake.Disk{{Controller: "SATA", UUID: virtualboxfake.BaseUUID, File: "x.vdi"}}}).Text())
	f.Add("\"-ImageUUID-0-0\"=\"x\"\nForwarding(0)=\"\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := parseInfo(text)
		if err != nil {
			return
		}
		for _, d := range v.disks {
			if !uuidForm().MatchString(d.image) || named([]string{d.controller}) != nil {
				t.Errorf("disk %+v", d)
			}
		}
		if named(v.forwardings) != nil || v.cpus < 1 || v.memory < 1 {
			t.Errorf("%+v", v)
		}
	})
}

func FuzzParseList(f *testing.F) {
	f.Add("WARNING\n\"a \"b\" {c}\" {" + virtualboxfake.BaseUUID + "}\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseList(text)
		for _, m := range all {
			if err == nil && !uuidForm().MatchString(m.uuid) {
				t.Errorf("%+v", m)
			}
		}
	})
}
