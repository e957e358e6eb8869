package virtualbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
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
