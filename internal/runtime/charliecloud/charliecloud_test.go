package charliecloud

import (
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/overlay"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestMain(m *testing.M) {
	drivertest.OwnerMain(func() driver.Runtime { return New(command.Options{}) })
	os.Exit(m.Run())
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireTool(t, "ch-run")
	binary := testkit.Binary(t)
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return New(command.Options{Binary: binary}) }, Binary: binary, SharedUTS: true, NamespaceRoot: true, Inherits: true, Memory: drivertest.LimitsMemory(t)}.Run(t)
}

func TestProbeSaysThatItIsNotInstalled(t *testing.T) {
	facts, err := New(command.Options{Program: "no-such-ch-run", Binary: testkit.Binary(t)}).Probe(t.Context())
	if err != nil || facts.Usable || facts.Reason == "" || !strings.Contains(facts.Remedy, "no-such-ch-run") {
		t.Errorf("got %+v, %v", facts, err)
	}
}

func TestCommandLine(t *testing.T) {
	s := driver.ContainerSpec{StateDir: "/state", Image: driver.LocalImage{Tree: "/no/tree:1"}, Mounts: []driver.Mount{{Source: "/s", Target: "/work"}, {Source: "/in", Target: "/data", ReadOnly: true}}}
	for name, test := range map[string]struct {
		root bool
		user *core.Account
		ids  string
		own  string
	}{"caller": {false, nil, "--uid 1000 --gid 100", ""}, "root": {true, nil, "--uid 0 --gid 0", ""}, "the image's": {false, &core.Account{UID: 7, GID: 8}, "--uid 7 --gid 8", "--no-passwd "}} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.Root, s.User = test.root, test.user
			got := strings.Join(startCommand("ch-run", s, command.Host{UID: 1000, GID: 100}, overlay.Of(s)), " ")
			_, got, _ = strings.Cut(got, " 1 ro /in /state/upper/bind1 ")
			want := `setpriv --no-new-privs ch-run --write --private-tmp ` + test.ids + ` --cd / ` + test.own + `--bind /s:/work --bind /state/upper/bind1:/data --bind /state/hosts:/etc/hosts /state/upper/root -- /.bee/bee container-init`
			drivertest.Same(t, want, got)
		})
	}
}
