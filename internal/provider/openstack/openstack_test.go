package openstack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
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
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/provider/local"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/provider/ssh/agent"
	"github.com/bee-hpc/bee/internal/sshlink"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/machines"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
)

// TestMain lets the test binary be what the bee binary is on a machine: the agent, and a node.
func TestMain(m *testing.M) {
	if code, meant := machines.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
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

const sshFrom = "203.0.113.7/32"

// site returns the provider of a site of the server, with its leases in dir.
func site(t testing.TB, s *openstackserver.Server, dir string, change func(*openstack.Settings)) driver.Provider {
	t.Helper()
	return siteOf(t, map[string]string{"ProxyCommand": s.Proxy(t), "Port": machines.Port}, s.Scratch(), dir, change)
}

// siteOf returns the provider of a site whose machines are reached with options of ssh, and have a scratch directory.
func siteOf(t testing.TB, reaching map[string]string, scratch, dir string, change func(*openstack.Settings)) driver.Provider {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options := func(c cloud.Connection) map[string]string {
		direct := map[string]string{
			"IdentityFile": c.Key, "IdentitiesOnly": "yes", "IdentityAgent": "none",
			"UserKnownHostsFile": c.KnownHosts, "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
		}
		maps.Copy(direct, reaching)
		if c.Jump == "" {
			return direct
		}
		through := maps.Clone(direct)
		through["ProxyCommand"] = sshlink.JumpCommand(direct, c.User+"@"+c.Jump, c.Addresses[0])
		return through
	}
	settings := openstack.Settings{
		Name: openstackserver.Cloud, Types: []string{openstackserver.Small}, Image: openstackserver.Image, User: machines.User(t), SSHFrom: []string{sshFrom},
		Network: openstackserver.Private, Floating: openstack.FloatingHead,
		Cloud: cloud.Settings{
			Name: "campus", Dir: dir, Slot: time.Hour, Settle: 50 * time.Millisecond,
			Reach: cloud.Reach{
				Provider: func(c cloud.Connection) (driver.Provider, error) {
					return ssh.New(ssh.Settings{
						Name: "campus", Hosts: c.Hosts(), Options: options(c),
						Site: func(host string) json.RawMessage {
							return fmt.Appendf(nil, `{"Name": "campus", "Slots": 2, "Scratch": %q}`, filepath.Join(scratch, fmt.Sprint("bee-", slices.Index(c.Hosts(), host))))
						},
						BinaryFor: func(arch string) (string, error) {
							if arch == runtime.GOARCH {
								return self, nil
							}
							return "", os.ErrNotExist
						},
					})
				},
				Moved: func(inner core.Handle, c cloud.Connection) (core.Handle, error) { return ssh.Moved(inner, c.Hosts()) },
				Output: func(ctx context.Context, c cloud.Connection, address, command string) (string, error) {
					return sshlink.New(sshlink.Settings{Options: options(c)}).Output(ctx, c.User+"@"+address, command)
				},
			},
		},
	}
	if change != nil {
		change(&settings)
	}
	p, err := openstack.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func owner(run string) core.Owner { return core.Owner{User: "u", Run: run, Attempt: 1} }

// wantLeft reads the server's own list, not bee's.
func wantLeft(t *testing.T, s *openstackserver.Server, kinds ...string) {
	t.Helper()
	var got []string
	for _, l := range s.Left() {
		got = append(got, strings.Fields(l)[0])
	}
	if !slices.Equal(got, kinds) {
		t.Errorf("in the cloud there are %v, expected %v", s.Left(), kinds)
	}
}

// TestConformance has the machines of a lease reached through the head, and placed in a cluster.
func TestConformance(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	dir := t.TempDir()
	drivertest.ProviderSuite{Nodes: 2, Rented: true, New: func(t testing.TB) driver.Provider { return site(t, s, dir, placedAs(cloud.Cluster, false)) }}.Run(t)
	wantLeft(t, s)
}

// TestNextOffer has Nova build a part of the machines, and find no host for others: nothing is left of these, and
// the next offer is used.
func TestNextOffer(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	s.Break(1)
	s.Full(openstackserver.Large, 1)
	p := site(t, s, t.TempDir(), func(c *openstack.Settings) {
		c.Types, c.Floating = []string{openstackserver.Small, openstackserver.Large, openstackserver.Small}, openstack.FloatingAll
		c.Zones, c.Tags = []string{openstackserver.Zone}, map[string]string{"project": "cfd"}
	})
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("next"), Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if calls := s.Calls("POST /compute/v2.1/servers"); calls != 3 {
		t.Errorf("%d calls to rent, expected those of two offers that failed and one", calls)
	}
	wantLeft(t, s, "floating", "floating", "group", "server", "server")
	if got, want := s.Rules(), []string{"ingress IPv4 itself", "ingress IPv4 tcp 22 22 " + sshFrom, "ingress IPv6 itself"}; !slices.Equal(got, want) {
		t.Errorf("what is let in: %q, expected %q", got, want)
	}
	if err := l.Fencer().Fence(t.Context()); err != nil {
		t.Error(err)
	}
	if left := strings.Join(s.Left(), ", "); strings.Count(left, " SHUTOFF") != 2 {
		t.Errorf("once they are fenced there are %s", left)
	}
	if st, err := l.Status(t.Context()); err != nil || st.Live {
		t.Errorf("it lives: %+v, %v", st, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantLeft(t, s)
	s.Addresses(1)
	s.Full(openstackserver.Small, 2)
	s.Full(openstackserver.Large, 1)
	_, err = p.Acquire(t.Context(), driver.Request{Owner: owner("none"), Nodes: 2})
	if !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "No more IP addresses") {
		t.Errorf("without addresses: %v", err)
	}
	wantLeft(t, s)
	s.Addresses(8)
	if _, err = p.Acquire(t.Context(), driver.Request{Owner: owner("none"), Nodes: 2}); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "No valid host") {
		t.Errorf("without hosts: %v", err)
	}
	wantLeft(t, s)
}

// TestAnswerIsLost has calls carried out, and their answers lost: nothing is made twice, and a process that was
// killed meanwhile leaves nothing, whose record is lost, too.
func TestAnswerIsLost(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	dir := t.TempDir()
	s.Drop("POST /compute/v2.1/servers", true)
	s.Drop("POST /network/v2.0/security-groups", true)
	s.Drop("POST /network/v2.0/security-group-rules", true)
	s.Drop("GET /compute/v2.1/servers/detail", false)
	s.Fail("GET /network/v2.0/floatingips", http.StatusServiceUnavailable, false)
	s.Drop("PUT /network/v2.0/floatingips/{id}", true)
	l, err := site(t, s, dir, nil).Acquire(t.Context(), driver.Request{Owner: owner("lost"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantLeft(t, s, "floating", "group", "server")
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "how-to", "openstack.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(string(page), "server list --name '")
	name, _, _ = strings.Cut(name, "'")
	if n, err := s.Named(name); err != nil || n != 1 {
		t.Errorf("the how-to's pattern %q finds %d machines, %v", name, n, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	s.Expire()                                                                                            // the next call logs in again
	fresh := site(t, s, t.TempDir(), func(c *openstack.Settings) { c.Floating = openstack.FloatingNone }) // the site has changed
	if err := driver.ReleaseOwned(t.Context(), fresh, core.Owner{User: "stranger"}, "stranger"); err != nil {
		t.Error(err)
	}
	wantLeft(t, s, "floating", "group", "server")
	s.Drop("DELETE /compute/v2.1/servers/{id}", true)
	s.Drop("DELETE /network/v2.0/floatingips/{id}", true)
	if err := driver.ReleaseOwned(t.Context(), fresh, core.Owner{User: "u"}, "u"); err != nil {
		t.Error(err)
	}
	wantLeft(t, s)
	if st, err := l.Status(t.Context()); err != nil || st.Live {
		t.Errorf("it lives: %+v, %v", st, err)
	}
}

// TestMachinesPowerThemselvesOff when their time is over: what the start script arms does that, and not bee. Such
// machines do not compute, and their release removes them.
func TestMachinesPowerThemselvesOff(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), func(c *openstack.Settings) { c.Network, c.Floating = openstackserver.Flat, openstack.FloatingNone })
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("expiry"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	wantLeft(t, s, "group", "server")
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Fatalf("before its expiry: %+v, %v", st, err)
	}
	if err := s.Forward(48 * time.Hour); err != nil {
		t.Fatal(err)
	}
	poweredOff := func() error {
		st, err := l.Status(t.Context())
		if err == nil && (st.Live || st.End != core.HostsPoweredOff) {
			err = fmt.Errorf("its status is %+v", st)
		}
		return err
	}
	testkit.Eventually(t, time.Minute, poweredOff)
	if n := s.Calls("DELETE /compute/v2.1/servers/{id}"); n != 0 {
		t.Errorf("bee has ended %d machines", n)
	}
	again, err := p.Recover(t.Context(), l.Handle())
	if err == nil {
		err = again.Release(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
	wantLeft(t, s)
	if err := poweredOff(); err != nil { // another process has ended it
		t.Error(err)
	}
}

// TestDeletedMachines: Nova lists them no more, and still knows who has deleted them.
func TestDeletedMachines(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), func(c *openstack.Settings) { c.Network, c.Floating = openstackserver.Flat, openstack.FloatingNone })
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("deleted"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Lose()
	testkit.Eventually(t, time.Minute, func() error {
		if left := s.Left(); len(left) != 1 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	if _, err := p.Recover(t.Context(), l.Handle()); !core.IsKind(err, core.NotFound) || core.HostsEndOf(err) != core.HostsReclaimed {
		t.Errorf("recovered with %v (%q)", err, core.HostsEndOf(err))
	}
	wantLeft(t, s)
}

// TestWhatIsRefused is reported before anything is rented, with a remedy and the nearest names.
func TestWhatIsRefused(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	for name, c := range map[string]struct {
		change func(*openstack.Settings)
		words  []string
	}{
		"unknown flavor":     {func(c *openstack.Settings) { c.Types = []string{"m1.smal"} }, []string{`it has "m1.small", "m1.large"`}},
		"unknown zone":       {func(c *openstack.Settings) { c.Zones = []string{"broken"} }, []string{`it has "nova"`}},
		"unknown image":      {func(c *openstack.Settings) { c.Image = "debian-13" }, []string{`it has "debian-12", "debian-12-arm", "own"`}},
		"name of two images": {func(c *openstack.Settings) { c.Image = openstackserver.Twice }, []string{"img-3", "img-4"}},
		"image of no user":   {func(c *openstack.Settings) { c.Image, c.User = openstackserver.Plain, "" }, []string{"user"}},
		"disk too small": {func(c *openstack.Settings) {
			c.Types, c.Image = []string{openstackserver.Tiny}, openstackserver.Big
		}, []string{"1 GiB", "needs 10"}},
		"unknown network": {func(c *openstack.Settings) { c.Network = "privat" }, []string{`it has "private", "flat"`}},
		"which network":   {func(c *openstack.Settings) { c.Network = "" }, []string{`"flat", "private"`}},
		"unknown pool":    {func(c *openstack.Settings) { c.Pool = "none" }, []string{`"public"`}},
		"unknown cloud":   {func(c *openstack.Settings) { c.Name = "nowhere" }, []string{"nowhere", "clouds.yaml"}},
		"unknown region":  {func(c *openstack.Settings) { c.Region = "RegionTwo" }, []string{"region"}},
	} {
		f, err := site(t, s, t.TempDir(), c.change).Probe(t.Context())
		if err != nil || f.Usable || f.Remedy == "" {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		for _, w := range c.words {
			if !strings.Contains(f.Reason+f.Remedy, w) {
				t.Errorf("%s: %q has no %q", name, f.Reason, w)
			}
		}
		if strings.Contains(f.Reason, openstackserver.Secret) {
			t.Errorf("%s: the reason has the secret", name)
		}
	}
	s.Quota(0)
	if f, err := site(t, s, t.TempDir(), nil).Probe(t.Context()); err != nil || f.Usable || !strings.Contains(f.Reason, "0 machines") {
		t.Errorf("without a quota: %+v, %v", f, err)
	}
	s.Quota(1)
	if _, err := site(t, s, t.TempDir(), nil).Acquire(t.Context(), driver.Request{Owner: owner("many"), Nodes: 2}); !core.IsKind(err, core.Busy) || core.Remedy(err) == "" {
		t.Errorf("beyond the quota: %v", err)
	}
	for id, want := range map[string]string{"img-2": "", openstackserver.Image: "debian"} {
		f, err := site(t, s, t.TempDir(), func(c *openstack.Settings) {
			if c.Image = id; want != "" {
				c.User = ""
			}
		}).Probe(t.Context())
		if err != nil || !f.Usable || f.Slots != 2 || f.Detail["type"] != openstackserver.Small {
			t.Errorf("image %s: %+v, %v", id, f, err)
		}
	}
	wantLeft(t, s)
}

// TestCredentials are those of clouds.yaml or of the OS_* variables, and an application credential is of one project.
func TestCredentials(t *testing.T) {
	s := openstackserver.Start(t)
	user := []string{"OS_AUTH_URL=" + s.URL(), "OS_USERNAME=" + openstackserver.Username, "OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_NAME=" + openstackserver.Project, "OS_PROJECT_DOMAIN_NAME=Default"}
	app := []string{"OS_AUTH_URL=" + s.URL(), "OS_APPLICATION_CREDENTIAL_ID=" + openstackserver.AppID, "OS_PROJECT_NAME=" + openstackserver.Project, "OS_PROJECT_DOMAIN_NAME=Default"}
	for name, c := range map[string]struct {
		env    []string
		usable bool
	}{
		"clouds.yaml":    {s.Env(), true},
		"password":       {append(user, "OS_PASSWORD="+openstackserver.Password), true},
		"wrong password": {append(user, "OS_PASSWORD=wrong"), false},
		"no password":    {user, false},
		"application":    {append(app, "OS_APPLICATION_CREDENTIAL_SECRET="+openstackserver.Secret), true},
		"wrong secret":   {append(app, "OS_APPLICATION_CREDENTIAL_SECRET=wrong"), false},
		"none":           {nil, false},
		"no server":      {[]string{"OS_AUTH_URL=http://127.0.0.1:1/v3", "OS_USERNAME=u", "OS_USER_DOMAIN_NAME=d", "OS_PASSWORD=p"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, e := range os.Environ() {
				if key, _, _ := strings.Cut(e, "="); strings.HasPrefix(key, "OS_") {
					t.Setenv(key, "")
				}
			}
			testkit.Setenv(t, c.env)
			f, err := site(t, s, t.TempDir(), func(o *openstack.Settings) { o.Name = "" }).Probe(t.Context())
			if err != nil || f.Usable != c.usable || !f.Usable && f.Remedy == "" {
				t.Errorf("got %+v, %v", f, err)
			}
			for _, secret := range []string{openstackserver.Password, openstackserver.Secret} {
				if strings.Contains(f.Reason, secret) {
					t.Errorf("the reason has the secret: %q", f.Reason)
				}
			}
		})
	}
}
