package lxc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/overlay"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	drivertest.OwnerMain(func() driver.Runtime { return New(command.Options{}) })
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireTool(t, "lxc-start")
	binary := testkit.Binary(t)
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return New(command.Options{Binary: binary}) }, Binary: binary, Inherits: true, Memory: drivertest.LimitsMemory(t)}.Run(t)
}

func TestProbeSaysThatItIsNotInstalled(t *testing.T) {
	facts, err := New(command.Options{Program: "no-such-lxc", Binary: testkit.Binary(t)}).Probe(t.Context())
	if err != nil || facts.Usable || facts.Reason == "" || !strings.Contains(facts.Remedy, "no-such-lxc") {
		t.Errorf("got %+v, %v", facts, err)
	}
}

func TestCommandLine(t *testing.T) {
	s := driver.ContainerSpec{Name: "c", StateDir: "/state"}
	for name, test := range map[string]struct {
		root bool
		user *core.Account
		as   string
	}{"caller": {false, nil, " as 1000:100"}, "root": {true, nil, ""}, "the image's": {false, &core.Account{UID: 7, GID: 8}, " as 7:8"}} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Root, s.User = test.root, test.user
			got := strings.Join(startCommand("lxc-start", s, command.Host{UID: 1000, GID: 100}, filesIn(s.StateDir)), " ")
			want := "/bin/sh -c WRAPPER bee-lxc setpriv --bounding-set -setgid lxc-start --foreground --name c --lxcpath /state/lxc/state --rcfile /state/lxc/config -- /.bee/bee container-init" + test.as
			drivertest.Same(t, want, strings.Replace(got, wrapper, "WRAPPER", 1))
		})
	}
}

// TestAccountsThatAreNone: nobody writes into a FIFO of an image.
func TestAccountsThatAreNone(t *testing.T) {
	s := driver.ContainerSpec{StateDir: t.TempDir(), Image: driver.LocalImage{Tree: t.TempDir()}}
	if err := os.Mkdir(filepath.Join(s.Image.Tree, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(s.Image.Tree, "etc/passwd"), 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := writeAccounts(s)
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the accounts are waited for")
	}
}

func TestConfiguration(t *testing.T) {
	s := driver.ContainerSpec{
		Name: "c", StateDir: "/state", Hostname: "host", Env: []string{"A=1 #", "B=two\nlines"},
		Mounts: []driver.Mount{{Source: "/a b", Target: "/work"}, {Source: "/in", Target: "/data", ReadOnly: true}},
	}
	h := command.Host{NoMqueue: true, Devices: []driver.Device{{Source: "/dev/zero", Target: "/dev/card0"}}}
	want := `lxc.rootfs.path = dir:/state/upper/root
lxc.rootfs.mount = /state/lxc/root
lxc.uts.name = host
lxc.namespace.keep = net ipc user
lxc.net.0.type = none
lxc.console.path = none
lxc.tty.max = 0
lxc.pty.max = 1024
lxc.autodev = 1
lxc.mount.auto = proc:mixed
lxc.no_new_privs = 1
lxc.cap.keep = none
lxc.apparmor.profile = unconfined
lxc.mount.entry = /dev/shm dev/shm none rbind,create=dir 0 0
lxc.mount.entry = /dev/zero dev/card0 none rbind,create=file 0 0
lxc.mount.entry = /a\040b work none rbind 0 0
lxc.mount.entry = /state/upper/bind1 data none rbind 0 0
lxc.environment = A=1 #
`
	got, err := config(s, h, overlay.Of(s), filesIn(s.StateDir), true)
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, want, got)
	s.Hostname = "host\nlxc.cap.keep = sys_admin"
	if _, err := config(s, h, overlay.Of(s), filesIn(s.StateDir), false); !core.IsKind(err, core.Invalid) {
		t.Errorf("a name of two lines: %v", err)
	}
}
