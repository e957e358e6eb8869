package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	sshagent "github.com/bee-hpc/bee/internal/provider/ssh/agent"
	"github.com/bee-hpc/bee/internal/sshlink"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// impatientArg makes it an agent that waits for its node for four seconds only.
const impatientArg = "impatient-host"

// TestMain lets the test binary be what the bee binary is in real use: the
// agent on the login node, those on the compute nodes, and there a node.
func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case drivertest.NodeArg, "node": // as a launch names it, or as an agent does by itself
			os.Exit(drivertest.StandInNode())
		case impatientArg:
			os.Exit(hostMain(os.Args[2:], drivertest.StandInStarter, 4*time.Second, 2*time.Second))
		case HostArg:
			os.Exit(HostMain(os.Args[2:], drivertest.StandInStarter))
		case sshlink.RemoteArg:
			queue := &Queue{}
			os.Exit(sshagent.Agent{
				Store: func(dir string) driver.Store { return dirstore.Store(dir) },
				Provider: func(raw json.RawMessage, _ environ.Lookup) (driver.Provider, error) {
					var s Settings
					if err := json.Unmarshal(raw, &s); err != nil {
						return nil, err
					}
					s.Queue = queue
					return New(s)
				},
			}.Main())
		}
	}
	os.Exit(m.Run())
}

// site gives a provider of the farm behind its login node: the one way in,
// as it has a network of its own.
func site(t testing.TB, f *slurmfarm.Farm, s Settings) driver.Provider {
	t.Helper()
	return siteAmong(t, f, s, &sshlink.Logins{})
}

// siteAmong is site with a connection that others may have too.
func siteAmong(t testing.TB, f *slurmfarm.Farm, s Settings, logins *sshlink.Logins) driver.Provider {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if s.Name == "" {
		s.Name = "cluster"
	}
	if s.Scratch == "" {
		s.Scratch = filepath.Join(f.Dir, "scratch")
	}
	s.NodeArgv = []string{self, drivertest.NodeArg}
	if s.HostArgv == nil {
		s.HostArgv = []string{self, HostArg}
	}
	inside, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ssh.NewLogin(ssh.Settings{
		Name: s.Name, Hosts: []string{f.Names[0]}, Client: filepath.Join(f.Bin, "ssh"), Logins: logins,
		Site: func(string) json.RawMessage {
			raw, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		BinaryFor: func(arch string) (string, error) {
			if arch == runtime.GOARCH {
				return self, nil
			}
			return "", os.ErrNotExist
		},
	}, inside.Info())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	f := slurmfarm.StartFor(t, drivertest.Stray(), 2)
	logins := &sshlink.Logins{}
	drivertest.ProviderSuite{Nodes: 2, Agents: true, New: func(t testing.TB) driver.Provider { return siteAmong(t, f, Settings{}, logins) }}.Run(t)
	if out, err := f.Do("squeue", "--noheader"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("left in the queue: %v\n%s", err, out)
	}
}

// TestJobWithoutARecord: the process that submitted it died before it wrote its number.
func TestJobWithoutARecord(t *testing.T) {
	f := slurmfarm.Start(t, 1)
	owner := core.Owner{User: "u", Run: "torn", Attempt: 1}
	p := site(t, f, Settings{})
	if _, err := p.Acquire(t.Context(), driver.Request{Owner: owner, Nodes: 1}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(f.Dir, "scratch", "bee", leasesDir, leasedir.Name(owner), detailsName)); err != nil {
		t.Fatal(err)
	}
	handles, err := p.List(t.Context(), owner)
	if err != nil || len(handles) != 1 {
		t.Fatalf("%v, %v", handles, err)
	}
	l, err := p.Recover(t.Context(), handles[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := f.Do("squeue", "--noheader"); err != nil || strings.TrimSpace(out) != "" {
		t.Errorf("left in the queue: %v\n%s", err, out)
	}
}

// TestAJobWithoutALaunchSpecIsReleased: nobody brought what it needs, and anyone who
// comes too late reads so in plain words.
func TestAJobWithoutALaunchSpecIsReleased(t *testing.T) {
	f := slurmfarm.Start(t, 2)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := site(t, f, Settings{HostArgv: []string{self, impatientArg}})
	owner := core.Owner{User: "u", Run: "late", Attempt: 1}
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Autostart().StageSpec(t.Context(), []byte("not in force")); err != nil {
		t.Error(err)
	}
	verdict := filepath.Join(f.Dir, "scratch", "bee", leasesDir, leasedir.Name(owner), verdictName)
	piece := filepath.Join(t.TempDir(), "piece")
	if err := os.WriteFile(piece, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 10 { // longer than that, but every second something comes
		if err := l.Stage(t.Context(), driver.Transfer{Local: piece, Remote: filepath.Join(l.Hosts()[0].Dir, "piece")}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	}
	if _, err := os.Stat(verdict); err == nil {
		t.Error("the nodes were given back while files were being brought")
	}
	testkit.Eventually(t, time.Minute, func() error {
		out, err := f.Do("squeue", "--noheader")
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New(out)
		}
		return err
	})
	if err := l.Autostart().EnableSpec(t.Context()); err != nil {
		t.Error(err)
	}
	if w, err := l.Queue().Ready(t.Context()); !core.IsKind(err, core.Lost) || !strings.Contains(err.Error(), "4s") {
		t.Errorf("%+v, %v", w, err)
	} else if !w.Missed {
		t.Error("it is not reported that the nodes were there")
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAJobThatWaitsForItsControllerAlone is released much sooner: nothing more has to be
// brought.
func TestAJobThatWaitsForItsControllerAlone(t *testing.T) {
	f := slurmfarm.Start(t, 2)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := site(t, f, Settings{HostArgv: []string{self, impatientArg}})
	l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "secret", Attempt: 1}, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Autostart().Attend(t.Context()); err != nil {
			t.Error(err)
		}
	}
	testkit.Eventually(t, time.Minute, func() error {
		out, err := f.Do("squeue", "--noheader")
		if err == nil && strings.TrimSpace(out) != "" {
			err = errors.New(out)
		}
		return err
	})
	if w, err := l.Queue().Ready(t.Context()); !core.IsKind(err, core.Lost) || !w.Missed || !strings.Contains(err.Error(), "2s") {
		t.Errorf("%+v, %v", w, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAPartitionThatIsDown can be asked again later.
func TestAPartitionThatIsDown(t *testing.T) {
	f := slurmfarm.Start(t, 1)
	p := site(t, f, Settings{Partition: "brief"})
	for _, state := range []string{"down", "up"} {
		up := state == "up"
		scontrol(t, f, "update", "partition=brief", "state="+state)
		testkit.Eventually(t, settled, func() error {
			facts, err := p.Probe(t.Context())
			if err == nil && (facts.Usable != up || !up && (!facts.Passing || !strings.Contains(facts.Reason, "brief "))) {
				err = fmt.Errorf("%s: %+v", state, facts)
			}
			return err
		})
		l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: state, Attempt: 1}, Nodes: 1})
		if up != (err == nil) || !up && !core.IsKind(err, core.Busy) {
			t.Errorf("%s: %v", state, err)
		}
		if l != nil {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRefusals: what cannot be is reported before anything is submitted.
func TestRefusals(t *testing.T) {
	f := slurmfarm.Start(t, 1)
	for name, c := range map[string]struct {
		settings Settings
		want     string
		atSubmit bool // found out by sbatch alone
	}{
		"slot":      {Settings{Partition: "brief", Slot: time.Hour}, "partition brief ", false},
		"partition": {Settings{Partition: "nowhere"}, `"nowhere"`, false},
		"job":       {Settings{Job: "4711"}, "4711", false},
		"option":    {Settings{Options: []string{"--no-such-option"}}, "no-such-option", true},
		"feature":   {Settings{Constraint: "purple"}, "eature", true},
		"scratch":   {Settings{Scratch: "/proc/none"}, "/proc/none", false},
	} {
		p := site(t, f, c.settings)
		facts, err := p.Probe(t.Context())
		if reported := strings.Contains(facts.Reason, c.want) && facts.Remedy != ""; err != nil || facts.Usable != c.atSubmit || !c.atSubmit && !reported {
			t.Errorf("%s: the facts are %+v, %v", name, facts, err)
		}
		if strings.Contains(facts.Reason, "use site") { // who asked says that
			t.Errorf("%s: the reason is %q", name, facts.Reason)
		}
		_, err = p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: name, Attempt: 1}, Nodes: 1})
		if err == nil || !strings.Contains(err.Error(), c.want) || core.Remedy(err) == "" {
			t.Errorf("%s: %v (remedy %q), want %q", name, err, core.Remedy(err), c.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(f.Dir, "scratch", "bee", leasesDir, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestParseRooms(t *testing.T) {
	const out = "batch*|up|1-00:00:00|10|32|64000\nbatch*|up|1-00:00:00|2|16+|32000+\nlong|down|infinite|4|64|128000\n"
	batch := room{partition: "batch", up: true, alike: []alike{{10, 32, 64000}, {2, 16, 32000}}, limit: 24 * time.Hour}
	long := room{partition: "long", alike: []alike{{4, 64, 128000}}}
	for names, want := range map[string][]room{"": {batch}, "batch": {batch}, "long": {long}, "long,batch": {batch, long}} {
		p := &provider{s: Settings{Partition: names}}
		if got, err := parseRooms(out, p.partitions()); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", names, got, err)
		}
	}
	for _, bad := range []string{"", "a|b\n", "batch*|up|x|1|1|1\n", "batch*|up|10:00|many|1|1\n", "batch*|up|10:00|1|1|much\n", "batch*|up|10:00|0|0|0\n"} {
		if r, err := parseRooms(bad, nil); err == nil {
			t.Errorf("%q gave %+v", bad, r)
		}
	}
	if r, err := parseRooms(out, []string{"batch", "nowhere"}); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestUnlikeNodes: what some of them can take is not refused for the others.
func TestUnlikeNodes(t *testing.T) {
	rooms := []room{{partition: "thin", up: true, alike: []alike{{8, 16, 32000}, {4, 64, 256000}}, limit: time.Hour}, {partition: "fat", up: true, alike: []alike{{2, 128, 1000000}}, limit: 24 * time.Hour}}
	cases := map[string]struct {
		s    Settings
		r    driver.Request
		fits bool
	}{
		"all":               {Settings{}, driver.Request{Nodes: 12, SlotsPerNode: 16}, true},
		"the larger":        {Settings{}, driver.Request{Nodes: 4, SlotsPerNode: 32}, true},
		"too many of them":  {Settings{}, driver.Request{Nodes: 5, SlotsPerNode: 32}, false},
		"the other":         {Settings{}, driver.Request{Nodes: 2, SlotsPerNode: 128}, true},
		"for long":          {Settings{Slot: 2 * time.Hour}, driver.Request{Nodes: 2, SlotsPerNode: 16}, true},
		"many for long":     {Settings{Slot: 2 * time.Hour}, driver.Request{Nodes: 3}, false},
		"more cores":        {Settings{}, driver.Request{Nodes: 1, SlotsPerNode: 129}, false},
		"memory of some":    {Settings{Options: []string{"--mem=100G"}}, driver.Request{Nodes: 4}, true},
		"memory of few":     {Settings{Options: []string{"--mem=200G"}}, driver.Request{Nodes: 5}, false},
		"all of the memory": {Settings{Options: []string{"--mem=0"}}, driver.Request{Nodes: 12}, true},
		"memory of a job":   {Settings{Options: []string{"--mem=1G"}}, driver.Request{Nodes: 5, Memory: 200 << 30}, false},
	}
	var refused testkit.ErrorList
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		p := &provider{s: c.s}
		_, err := fitting(rooms, func(room room) error {
			if err := p.takes(room); err != nil {
				return err
			}
			return p.holds(room, c.r)
		})
		if c.fits != (err == nil) || err != nil && (core.Remedy(err) == "" || !core.IsKind(err, core.Unsupported)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			refused.Add(name, err)
		}
	}
	refused.Compare(t, "unlike-nodes")
	rooms[1].up = false
	if _, err := fitting(rooms, (&provider{s: Settings{Slot: 2 * time.Hour}}).takes); !core.IsKind(err, core.Busy) {
		t.Errorf("a partition that would do is down: %v", err)
	}
}

func TestParseSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10:00": 10 * time.Minute, "1:00:00": time.Hour, "2-03:04:05": 51*time.Hour + 4*time.Minute + 5*time.Second,
		"1-12": 36 * time.Hour, "infinite": 0,
	} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "x", "1", "1:2:3:4", "1-x"} {
		if got, err := parseSpan(bad); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func FuzzParseJobs(f *testing.F) {
	f.Add("bee-job|1|1|RUNNING|None|1763711000|1763714600|2|main|normal|/a|b\n")
	f.Add("Welcome\nbee-job|4|2_1|RUNNING|None|1763711000|1763714600|2|main|normal|/a\n")
	f.Add("bee-job|2|2|PENDING|Resources|N/A|NOT_SET|2|\n")
	f.Fuzz(func(t *testing.T, out string) {
		list, err := parseJobs(out)
		if err == nil && len(list) != strings.Count("\n"+out, "\n"+jobMark) {
			t.Errorf("%d jobs of %q", len(list), out)
		}
		for _, j := range list {
			j.over()
			j.waiting()
			j.ending()
		}
	})
}

func TestOptions(t *testing.T) {
	owner := core.Owner{User: "u", Run: "r1", Attempt: 2}
	for name, c := range map[string]struct {
		s    Settings
		r    driver.Request
		want string
	}{
		"whole nodes": {Settings{}, driver.Request{Nodes: 2}, "--nodes=2 --ntasks-per-node=1 --exclusive --mem=0"},
		"cores": {
			Settings{Slots: 8, Slot: 90 * time.Second, MinSlot: time.Minute, Partition: "p", Account: "a"},
			driver.Request{Nodes: 1, SlotsPerNode: 4, GPUs: 2},
			"--nodes=1 --ntasks-per-node=1 --cpus-per-task=4 --time=2 --time-min=1 --gpus-per-node=2 --partition=p --account=a",
		},
		"what a site has only some of": {
			Settings{QOS: "q", Constraint: "fast&ib", Reservation: "r", Licenses: "lab:2"},
			driver.Request{Nodes: 1},
			"--nodes=1 --ntasks-per-node=1 --exclusive --mem=0 --qos=q --constraint=fast&ib --reservation=r --licenses=lab:2",
		},
		"the user's": {
			Settings{Exclusive: true, Gres: "gpu:a100:1", Options: []string{"--mem=4G", "--mail-type=END"}},
			driver.Request{Nodes: 1, GPUs: 1},
			"--nodes=1 --ntasks-per-node=1 --exclusive --gres=gpu:a100:1 --mem=4G --mail-type=END",
		},
		"memory of the job": {
			Settings{Options: []string{"--mem-per-cpu=4G", "--mem-bind=local"}},
			driver.Request{Nodes: 1, SlotsPerNode: 2, Memory: 3<<30 + 1},
			"--nodes=1 --ntasks-per-node=1 --cpus-per-task=2 --mem=3073 --mem-bind=local",
		},
		"memory alone": {
			Settings{Options: []string{"--mem=4G"}},
			driver.Request{Nodes: 1, Memory: 1 << 30},
			"--nodes=1 --ntasks-per-node=1 --exclusive --mem=1024",
		},
	} {
		c.r.Owner = owner
		got := strings.Join((&provider{s: c.s}).options("/d", c.r), " ")
		want := "--parsable --no-requeue --job-name=bee-r1 --chdir=/d --open-mode=append --output=/d/job.log " + c.want
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// TestWordsOfSlurms: what its programs say on several lines is reported in one, with a remedy.
func TestWordsOfSlurms(t *testing.T) {
	const nowhere = "sinfo: resolve_ctls_from_dns_srv: res_nsearch error: Host name lookup failure\nsinfo: error: fetch_config: DNS SRV lookup failed\n" +
		"sinfo: fatal: Could not establish a configuration source"
	var explained testkit.ErrorList
	for _, c := range []struct{ name, words string }{
		{"sinfo", nowhere},
		{"sbatch", "sbatch: error: Batch job submission failed: Invalid feature specification"},
		{"sbatch", "sbatch: error: Invalid generic resource (gres) specification"},
		{"sbatch", "sbatch: error: Batch job submission failed: Invalid license specification"},
	} {
		err := explain(c.name, c.words, errors.New("exit status 1"))
		if core.Remedy(err) == "" {
			t.Errorf("%q: %v has no remedy", c.words, err)
		}
		explained.Add(c.words, err)
	}
	explained.Compare(t, "words-of-slurm")
}

// TestWhatSbatchPrints beside the number, and in its place, is no reason to lose the job.
func TestWhatSbatchPrints(t *testing.T) {
	for out, want := range map[string]string{
		"12\n":                                    "12",
		"12;cluster\n":                            "12",
		"Your project has 20 % left.\n12\n":       "12",
		"12\nremember to use /scratch\n":          "12",
		"sbatch: lua: set QOS\r\n12\r\n":          "12",
		"Submitted batch job 12\n":                "12",
		"Submitted batch job 12 on cluster big\n": "",
		"see ticket 4711 for news\n":              "",
		"":                                        "",
		"-3\n":                                    "",
	} {
		if got := numberIn(out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}

func TestNumbersOfJobs(t *testing.T) {
	list, err := parseJobs("News of the day\n" + jobMark + "2|2_3|RUNNING|None|0|0|1|p|q|/a\n" + jobMark + "3|2_1|RUNNING|None|0|0|1|p|q|/b\n" + jobMark + "7|7+0|RUNNING|None|0|0|1|p|q|/c\n" + jobMark + "8|7+1|RUNNING|None|0|0|1|p|q|/d|e\n")
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"2": "/a", "3": "/b", "2_1": "/b", "2_3": "/a", "7": "/c", "7+1": "/d|e", "8": "/d|e", "9": ""} {
		got := ""
		if j := numbered(list, id); j != nil {
			got = j.dir
		}
		if got != want {
			t.Errorf("%s is the job in %q, want %q", id, got, want)
		}
	}
}
