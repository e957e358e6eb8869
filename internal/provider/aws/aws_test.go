package aws_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/provider/aws"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/provider/local"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/provider/ssh/agent"
	"github.com/bee-hpc/bee/internal/sshlink"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
	"github.com/bee-hpc/bee/internal/testkit/machines"
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

// site returns the provider of a site of the server, with its leases in dir.
func site(t testing.TB, s *ec2server.Server, dir string, change func(*aws.Settings)) driver.Provider {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	options := func(c cloud.Connection) map[string]string {
		return map[string]string{
			"ProxyCommand": s.Proxy(t), "IdentityFile": c.Key, "IdentitiesOnly": "yes", "IdentityAgent": "none",
			"UserKnownHostsFile": c.KnownHosts, "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
		}
	}
	settings := aws.Settings{
		Types: []string{ec2server.Small}, Image: ec2server.Image, User: machines.User(t), SSHFrom: []string{"203.0.113.7/32"},
		Cloud: cloud.Settings{
			Name: "ec2", Dir: dir, Slot: time.Hour, Settle: 50 * time.Millisecond,
			Reach: cloud.Reach{
				Provider: func(c cloud.Connection) (driver.Provider, error) {
					return ssh.New(ssh.Settings{
						Name: "ec2", Hosts: c.Hosts(), Options: options(c),
						Site: func(host string) json.RawMessage {
							return fmt.Appendf(nil, `{"Name": "ec2", "Slots": 2, "Scratch": %q}`, filepath.Join(s.Scratch(), fmt.Sprint("bee-", slices.Index(c.Hosts(), host))))
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
	p, err := aws.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func owner(run string) core.Owner { return core.Owner{User: "u", Run: run, Attempt: 1} }

// wantNothingLeft reads the server's own list, not bee's.
func wantNothingLeft(t *testing.T, s *ec2server.Server) {
	t.Helper()
	if left := s.Left(); len(left) > 0 {
		t.Errorf("left in the cloud: %v", left)
	}
}

// TestConformance has the machines of a lease placed in a cluster.
func TestConformance(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	drivertest.ProviderSuite{Nodes: 2, Rented: true, New: func(t testing.TB) driver.Provider { return site(t, s, dir, placedAs(cloud.Cluster, false)) }}.Run(t)
	wantNothingLeft(t, s)
}

// TestNextOffer has the first offers without capacity: the next one is used, and of the
// others nothing is left. A type is only tried in zones that offer it.
func TestNextOffer(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	s.Full(ec2server.ZoneBound, ec2server.ZoneA)
	s.Full(ec2server.Small, ec2server.ZoneB)
	s.Late(300 * time.Millisecond)
	p := site(t, s, t.TempDir(), func(c *aws.Settings) {
		c.Types, c.Zones = []string{ec2server.ZoneBound, ec2server.Small}, []string{ec2server.ZoneB, ec2server.ZoneA}
		c.Tags = map[string]string{"project": "cfd"}
	})
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("next"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if calls := s.Calls("RunInstances"); calls != 3 {
		t.Errorf("%d calls to rent, expected those of two offers without capacity and one", calls)
	}
	if left := s.Left(); len(left) != 2 {
		t.Errorf("made were %v, expected a machine and its group", left)
	}
	if rules := s.Rules(); !slices.Contains(rules, "tcp 22-22 203.0.113.7/32") || len(rules) != 2 {
		t.Errorf("what is let in: %q", rules)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
	s.Full(ec2server.Small, ec2server.ZoneA)
	_, err = p.Acquire(t.Context(), driver.Request{Owner: owner("none"), Nodes: 1})
	if !core.IsKind(err, core.Busy) || !errorsName(err, ec2server.ZoneBound, ec2server.ZoneA, ec2server.ZoneB) {
		t.Errorf("without capacity: %v", err)
	}
	wantNothingLeft(t, s)
}

// TestSpotMachines are for jobs that can be interrupted, where the cloud has some at the price. They cannot be stopped.
func TestSpotMachines(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	s.Full("spot "+ec2server.Small, ec2server.ZoneB)
	for name, c := range map[string]struct {
		markets       []string
		price         float64
		interruptible bool
		spots         int // -1: it is refused
	}{
		"spot":                      {[]string{"spot", "on-demand"}, 2 * ec2server.SpotPrice, true, 1},
		"too dear":                  {[]string{"spot", "on-demand"}, ec2server.SpotPrice / 2, true, 0},
		"cannot be interrupted":     {[]string{"spot", "on-demand"}, 0, false, 0},
		"on demand first":           {[]string{"on-demand", "spot"}, 0, true, 0},
		"spot alone, cannot be":     {[]string{"spot"}, 0, false, -1},
		"the default, which is not": {nil, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := site(t, s, t.TempDir(), func(a *aws.Settings) {
				a.Market, a.MaxPrice, a.Zones = c.markets, c.price, []string{ec2server.ZoneB, ec2server.ZoneA}
			})
			l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("spot"), Nodes: 1, Interruptible: c.interruptible})
			if c.spots < 0 {
				if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "checkpoint") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Spots(); got != c.spots {
				t.Errorf("there are %d spot machines, expected %d", got, c.spots)
			}
			if c.spots > 0 {
				if err := l.Fencer().Fence(t.Context()); !core.IsKind(err, core.Unsupported) {
					t.Errorf("fenced with %v", err)
				}
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wantNothingLeft(t, s)
}

func errorsName(err error, words ...string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return err == nil || !strings.Contains(err.Error(), w) })
}

// TestAnswerIsLost has the call that rents machines carried out, and its answer lost: the next
// one returns the same machines, and a process that was killed meanwhile leaves nothing.
func TestAnswerIsLost(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	s.Fail("RunInstances", "InternalError", http.StatusInternalServerError, true)
	s.Drop("RunInstances", true)
	s.Drop("CreateSecurityGroup", true) // the next call finds the group
	s.Drop("AuthorizeSecurityGroupIngress", true)
	for _, action := range []string{"AuthorizeSecurityGroupIngress", "RunInstances"} {
		s.Fail(action, "InvalidGroup.NotFound", http.StatusBadRequest, false) // the group is new
	}
	s.Drop("DescribeInstances", false)
	l, err := site(t, s, dir, nil).Acquire(t.Context(), driver.Request{Owner: owner("lost"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if left := s.Left(); len(left) != 2 {
		t.Errorf("rented were %v, expected one machine and its group", left)
	}
	if rules := s.Rules(); !slices.Contains(rules, "tcp 22-22 203.0.113.7/32") || len(rules) != 2 {
		t.Errorf("what is let in: %q", rules)
	}
	// The record is lost with this machine: the tags are enough.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	fresh := site(t, s, t.TempDir(), nil)
	if err := driver.ReleaseOwned(t.Context(), fresh, core.Owner{User: "stranger"}, "stranger"); err != nil || len(s.Left()) != 2 {
		t.Errorf("a stranger's machines were touched: %v", err)
	}
	if err := driver.ReleaseOwned(t.Context(), fresh, core.Owner{User: "u"}, "u"); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
	if st, err := l.Status(t.Context()); err != nil || st.Live {
		t.Errorf("it lives: %+v, %v", st, err)
	}
}

// TestAnotherAddress has a machine stopped and started again, behind bee's back: it is reached where it is now, by a
// process that knew it and by one that did not.
func TestAnotherAddress(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	held, err := site(t, s, dir, nil).Acquire(t.Context(), driver.Request{Owner: owner("moved"), Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Disconnect()
	for round := range 2 {
		if err := s.Move(); err != nil {
			t.Fatal(err)
		}
		l, name := held, fmt.Sprint("file-", round)
		if round == 0 {
			if st, err := l.Status(t.Context()); err != nil || !st.Live {
				t.Fatalf("it has %+v, %v", st, err)
			}
		} else if l, err = site(t, s, dir, nil).Recover(t.Context(), held.Handle()); err != nil {
			t.Fatal(err)
		}
		from, to := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(from, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		remote := filepath.Join(l.Hosts()[1].Dir, name)
		if err := l.Stage(t.Context(), driver.Transfer{Host: 1, Local: from, Remote: remote}); err != nil {
			t.Fatal(err)
		}
		if err := l.Fetch(t.Context(), driver.Transfer{Host: 1, Local: to, Remote: remote}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(to); err != nil || string(got) != name {
			t.Errorf("got %q, %v", got, err)
		}
		if err := l.Fetch(t.Context(), driver.Transfer{Host: 0, Local: to, Remote: filepath.Join(l.Hosts()[0].Dir, name)}); !core.IsKind(err, core.NotFound) {
			t.Errorf("the other machine has it: %v", err)
		}
		if err := errors.Join(os.Remove(from), os.Remove(to)); err != nil {
			t.Error(err)
		}
	}
	if err := held.Fencer().Fence(t.Context()); err != nil {
		t.Error(err)
	}
	if left := strings.Join(s.Left(), ", "); strings.Count(left, " stopped") != 2 {
		t.Errorf("once they are fenced there are %s", left)
	}
	if st, err := held.Status(t.Context()); err != nil || st.Live {
		t.Errorf("it lives: %+v, %v", st, err)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
}

// TestMachinesEndThemselves when their time is over: what the start script arms ends them, and not bee. They
// boot as long as they need, as their clock is set forward once they have answered.
func TestMachinesEndThemselves(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), nil)
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("expiry"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Fatalf("before its expiry: %+v, %v", st, err)
	}
	if err := s.Forward(48 * time.Hour); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if left := s.Left(); len(left) != 1 || left[0][:3] != "sg-" {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	if st, err := l.Status(t.Context()); err != nil || st.Live {
		t.Errorf("it lives: %+v, %v", st, err)
	}
	if _, err := p.Recover(t.Context(), l.Handle()); !core.IsKind(err, core.NotFound) {
		t.Errorf("recovered: %v", err)
	}
	if n := s.Calls("TerminateInstances"); n != 0 {
		t.Errorf("bee has called TerminateInstances %d times", n)
	}
	wantNothingLeft(t, s)
}

// TestWhatIsRefused is reported before anything is rented, with a remedy.
func TestWhatIsRefused(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	for name, c := range map[string]struct {
		change func(*aws.Settings)
		deny   string
		words  []string
	}{
		"unknown type":        {func(c *aws.Settings) { c.Types = []string{"t9.smal"} }, "", []string{ec2server.Small, ec2server.Large}},
		"unknown zone":        {func(c *aws.Settings) { c.Zones = []string{"us-test-1z"} }, "", []string{"us-test-1z", ec2server.ZoneA, ec2server.ZoneB}},
		"type in no zone":     {func(c *aws.Settings) { c.Types, c.Zones = []string{ec2server.ZoneBound}, []string{ec2server.ZoneB} }, "", []string{ec2server.ZoneBound, ec2server.ZoneA}},
		"unknown network":     {func(c *aws.Settings) { c.VPC = "vpc-none" }, "", []string{"vpc-none", ec2server.OtherVPC, ec2server.PrivateVPC}},
		"unknown subnet of":   {func(c *aws.Settings) { c.VPC, c.Subnets = ec2server.OtherVPC, []string{"subnet-none"} }, "", []string{"subnet-none", ec2server.OtherPublic, ec2server.OtherPrivate}},
		"another's subnet":    {func(c *aws.Settings) { c.VPC, c.Subnets = ec2server.PrivateVPC, []string{ec2server.OtherPublic} }, "", []string{ec2server.OtherPublic, ec2server.OtherVPC, ec2server.PrivateVPC}},
		"subnet elsewhere":    {func(c *aws.Settings) { c.Zones, c.Subnets = []string{ec2server.ZoneB}, []string{ec2server.OtherPublic} }, "", []string{ec2server.ZoneA}},
		"no public subnet":    {func(c *aws.Settings) { c.VPC = ec2server.PrivateVPC }, "", []string{"subnet-3", "public: true", "bastion"}},
		"private, from where": {func(c *aws.Settings) { c.Public, c.SSHFrom = aws.PublicNo, nil }, "", []string{"ssh_from"}},
		"unknown image":       {func(c *aws.Settings) { c.Image = "ami-none" }, "", []string{"ami-none"}},
		"unknown release":     {func(c *aws.Settings) { c.Image = "debian-99" }, "", []string{"debian-99", `"debian-12"`}},
		"other architecture":  {func(c *aws.Settings) { c.Image = ec2server.ImageArm }, "", []string{"arm64"}},
		"image for arm64":     {func(c *aws.Settings) { c.Types, c.Image = []string{ec2server.Arm}, "debian-12" }, "", []string{"debian-12", "arm64"}},
		"unknown subnet":      {func(c *aws.Settings) { c.Subnets = []string{"subnet-none"} }, "", []string{"subnet-none", "subnet-own"}},
		"other region":        {func(c *aws.Settings) { c.Region = "us-test-2" }, "", []string{"region"}},
		"no right":            {nil, "RunInstances", []string{"ec2:RunInstances"}},
	} {
		if c.deny != "" {
			s.Deny(c.deny)
		}
		f, err := site(t, s, t.TempDir(), c.change).Probe(t.Context())
		if err != nil || f.Usable || f.Remedy == "" {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
		if reported := errors.New(f.Reason + f.Remedy); !errorsName(reported, c.words...) {
			t.Errorf("%s: %v, expected words %q", name, reported, c.words)
		}
		if strings.Contains(f.Reason, ec2server.Secret) {
			t.Errorf("%s: the reason has the secret key", name)
		}
		s.Allow(c.deny)
	}
	f, err := site(t, s, t.TempDir(), func(c *aws.Settings) { c.Image, c.User = "debian-12", "" }).Probe(t.Context())
	if err != nil || !f.Usable || f.Detail["image"] != "ami-debian-new" || f.Slots != 2 {
		t.Errorf("an image by its name: %+v, %v", f, err)
	}
	wantNothingLeft(t, s)
}

// TestPrices: price list and market are asked only where the user has written no price. A missing right is named, and
// the site is usable without it.
func TestPrices(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	for name, c := range map[string]struct {
		market string
		source driver.PriceSource
		price  float64
	}{
		"on demand": {"on-demand", driver.PriceOfList, ec2server.ListPrice(2)},
		"spot":      {"spot", driver.PriceOfSpot, ec2server.SpotPrice},
	} {
		for _, priced := range []bool{false, true} {
			before := s.Calls("GetProducts") + s.Calls("DescribeSpotPriceHistory")
			f, err := site(t, s, t.TempDir(), func(a *aws.Settings) { a.Market, a.Cloud.Priced = []string{c.market}, priced }).Probe(t.Context())
			asked := s.Calls("GetProducts") + s.Calls("DescribeSpotPriceHistory") - before
			switch {
			case err != nil || !f.Usable:
				t.Errorf("%s: %+v, %v", name, f, err)
			case !priced && (f.Price != nil || f.NoPrice != "" || asked > 0):
				t.Errorf("%s, with the user's price: %+v, asked %d times", name, f.Price, asked)
			case priced && (f.Price == nil || f.Price.Amount != c.price || f.Price.Currency != "USD" || f.Price.Source != c.source || time.Since(f.Price.Asked) > time.Minute || asked != 1):
				t.Errorf("%s: %+v (%s), asked %d times", name, f.Price, f.NoPrice, asked)
			}
		}
	}
	s.Deny("GetProducts")
	f, err := site(t, s, t.TempDir(), func(a *aws.Settings) { a.Cloud.Priced = true }).Probe(t.Context())
	if err != nil || !f.Usable || f.Price != nil || !strings.Contains(f.NoPrice, "pricing:GetProducts") {
		t.Errorf("without the right: %+v, %v", f, err)
	}
}

// TestWrongSecret: the server compares signatures.
func TestWrongSecret(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if f, err := site(t, s, t.TempDir(), nil).Probe(t.Context()); err != nil || f.Usable || !strings.Contains(f.Reason, "SignatureDoesNotMatch") || f.Remedy == "" {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestNewLogin has a login tool write new credentials while bee runs.
func TestNewLogin(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	file := filepath.Join(t.TempDir(), "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	p := site(t, s, t.TempDir(), nil)
	for _, c := range []struct {
		token  string
		usable bool
	}{{ec2server.Expired, false}, {"of-the-new-login", true}} {
		text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\naws_session_token = %s\n", ec2server.Access, ec2server.Secret, c.token)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := p.Probe(t.Context()); err != nil || f.Usable != c.usable || !f.Usable && (!f.Passing || f.Remedy == "") {
			t.Errorf("with token %q: %+v, %v", c.token, f, err)
		}
	}
}

// TestCommandsOfTheHowTo has the commands of AWS's own tool that the how-to shows find what is rented, and nothing else.
func TestCommandsOfTheHowTo(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "how-to", "aws.md"))
	if err != nil {
		t.Fatal(err)
	}
	s := ec2server.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), nil)
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("seen"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for line := range strings.Lines(string(page)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "aws" || words[1] != "ec2" || !strings.HasPrefix(line, "    ") {
			continue
		}
		var action string
		for part := range strings.SplitSeq(words[2], "-") {
			action += strings.ToUpper(part[:1]) + part[1:]
		}
		if !slices.Contains(ec2server.Actions(), action) {
			t.Errorf("%q is no call that bee makes", line)
		}
		if !strings.HasPrefix(action, "Describe") {
			continue
		}
		shown++
		var filters [][]string
		for _, word := range words[4:] {
			name, values, _ := strings.Cut(strings.TrimPrefix(word, "Name="), ",Values=")
			filters = append(filters, append([]string{name}, strings.Split(values, ",")...))
		}
		wanted := 1
		if action == "DescribeVolumes" { // of the image
			wanted = 2
		}
		if n, err := s.Count(action, filters...); err != nil || n != wanted || words[3] != "--filters" {
			t.Errorf("%q finds %d, %v", line, n, err)
		}
	}
	if shown != 3 {
		t.Errorf("%d commands show what is rented", shown)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLeastPolicy holds the policy of the how-to against that of bee, and this against what the server knows: all that bee calls.
func TestLeastPolicy(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "how-to", "aws.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```json\n")
	text, _, _ = strings.Cut(text, "```")
	var policy aws.Policy
	if err := json.Unmarshal([]byte(text), &policy); err != nil || !reflect.DeepEqual(policy, aws.LeastPolicy()) {
		t.Fatalf("the policy is not that of `bee cloud policy`: %v, %+v", err, policy)
	}
	want := []string{"pricing:GetProducts"}
	for _, action := range ec2server.Actions() {
		want = append(want, "ec2:"+action)
	}
	for _, action := range ec2server.BlockActions() {
		want = append(want, "ebs:"+action)
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(policy.Statement[0].Action)); !slices.Equal(got, want) {
		t.Errorf("the policy allows %q, expected %q", got, want)
	}
}

// TestDisksThatOutliveTheirMachines are listed with the machines until these are gone, and are ended with the lease's other
// things. Without the right to list them, machines end nevertheless.
func TestDisksThatOutliveTheirMachines(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), func(c *aws.Settings) { c.Cloud.Priced = true })
	listed := func() (disks, machines int) {
		t.Helper()
		list, err := p.Inventory().Rented(t.Context(), core.Owner{User: "u"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			switch {
			case r.Kind == driver.RentedDisk:
				disks++
				if r.With == "" || !strings.Contains(r.Type, "GiB") {
					t.Errorf("a disk is %+v", r)
				}
			case r.Kind == driver.RentedMachine:
				machines++
				if r.Price == nil || r.Price.Amount != ec2server.ListPrice(2) || r.Type != ec2server.Small || r.Zone == "" {
					t.Errorf("a machine is %+v", r)
				}
			}
		}
		return disks, machines
	}
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("disks"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if disks, machines := listed(); disks != 2 || machines != 1 {
		t.Errorf("listed are %d disks and %d machines", disks, machines)
	}
	if n := s.Orphan(); n != 2 {
		t.Fatalf("%d disks are to outlive their machine", n)
	}
	s.Deny("DescribeVolumes")
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.Inventory().Rented(t.Context(), core.Owner{User: "u"}); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "ec2:DescribeVolumes") {
		t.Errorf("without the right: %v", err)
	}
	s.Allow("DescribeVolumes")
	if left := s.Left(); len(left) != 2 || !strings.HasPrefix(left[0], "vol-") {
		t.Errorf("left are %v", left)
	}
	if err := driver.ReleaseOwned(t.Context(), p, core.Owner{User: "u"}, "u"); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
}
