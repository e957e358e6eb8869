package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/setupcmd"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/spf13/cobra"
)

// TestGoldenFiles compares what each command prints with a golden file of its own: its help,
// and its command lines of goldenLines. BEE_TEST_WRITE=1 writes the files.
//
// The wording of commands is asserted here only. Other tests assert what a program reads:
// kinds of errors, exit codes, fields of JSON and of records.
func TestGoldenFiles(t *testing.T) {
	lines := goldenLines()
	written := testkit.GoldenNames(t)
	for path := range everyCommand(newApp(nil, nil).newRoot()) {
		name := strings.ReplaceAll(path, " ", "-")
		written = slices.DeleteFunc(written, func(file string) bool { return file == name })
		more := lines[path]
		delete(lines, path)
		t.Run(name, func(t *testing.T) { testkit.Golden(t, name, goldenText(t, path, more)) })
	}
	if len(lines) > 0 || len(written) > 0 {
		t.Errorf("there are no commands for the lines of %v, nor for the golden files %v", lines, written)
	}
}

// everyCommand yields the paths of a command and of all below it, hidden ones included.
func everyCommand(c *cobra.Command) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if !yield(c.CommandPath()) {
			return
		}
		for _, sub := range c.Commands() {
			everyCommand(sub)(yield)
		}
	}
}

// goldenLines are the command lines in the golden files, by command. Those of one command
// run one after the other, on one state directory: see goldenDesk.
func goldenLines() map[string][]string {
	return map[string][]string{
		"bee": {
			"nosuch", "stpo", "status", "top", "sh", "kill pi", "sbatch job.yaml", "compose", "sites", "login", "restart", "watch", "./job.yaml", "--nosuch", "--color blue ps",
			"--json-errors nosuch", "--sites none.yaml plan job.yaml", "--sites job.yaml plan job.yaml", "help nosuch", "help beefle", "help docker", "help hosts", "help mpirun", "help sbatch", "help kill", "help Nosuch", "help image nosuch", "help image ls", "help help", "help",
		},
		"bee ps": {
			"ps", "ps -a", "ps -q", "ps --limit 1", "ps -a --state failed", "ps -a --json --limit 1", "ps -a --format {{.id}}/{{.state}}/{{.why}}", "ps --format {{.id", "ps --state nosuch", "ps pi", "ps nosuch",
			"ps --limit x", "ps -q --json",
		},
		"bee compare": {"compare done pi", "compare done done", "compare done", "compare done nosuch"},
		"bee show":    {"show pi", "show md", "show cfd", "show done", "show later", "show --json pi", "show --beefile done", "show", "show a b", "show nosuch", "show two", "show aa", "show --json --beefile done"},
		"bee logs": {
			"logs done", "logs --json done", "logs -f done", "logs --attempt 1 done", "logs --attempt 4 done", "logs --node 0 done", "logs --node 5 done", "logs --controller done", "logs later", "logs cfd", "logs done cfd",
			"logs --node 0 done cfd", "logs nosuch", "logs",
		},
		"bee events":            {"events md", "events", "events nosuch", "events --since x"},
		"bee wait":              {"wait done", "wait cfd", "wait --json cfd done", "wait --timeout 1s pi", "wait nosuch", "wait --ticket run.ticket", "wait --ticket run.ticket pi", "wait"},
		"bee stats":             {"stats done", "stats later", "stats nosuch"},
		"bee report":            {"report nosuch", "report"},
		"bee exec":              {"exec pi", "exec done -- true", "exec later -- true", "exec two -- true", "exec nosuch -- true"},
		"bee cp":                {"cp a b", "cp pi:a done:b", "cp done:a b", "cp later:a b", "cp nosuch:a b", "cp"},
		"bee forward":           {"forward done 80", "forward pi x", "forward nosuch 80", "forward"},
		"bee ssh":               {"ssh done", "ssh later", "ssh nosuch", "ssh"},
		"bee stop":              {"stop", "stop ''", "stop nosuch", "stop two", "stop aa", "stop --all pi", "stop md nosuch", "stop cfd", "stop --json done cfd", "stop --no-wait --json three"},
		"bee rm":                {"rm", "rm ''", "rm nosuch", "rm pi", "rm md", "rm --finished cfd", "rm --older-than 7d cfd", "rm cfd", "rm --json done", "rm --json left", "rm left", "rm --force left", "rm --finished"},
		"bee supervise":         {"supervise later", "supervise --install --json"},
		"bee sweep":             {"sweep --dry-run", "sweep x"},
		"bee checkpoint":        {"checkpoint done", "checkpoint later", "checkpoint two", "checkpoint nosuch", "checkpoint"},
		"bee checkpoint export": {"checkpoint export done out", "checkpoint export nosuch out", "checkpoint export done"},
		"bee move":              {"move done", "move --site nope pi", "move nosuch", "move"},
		"bee resume":            {"resume done", "resume pi", "resume two", "resume nosuch", "resume --site nope md", "resume --ticket run.ticket", "resume"},
		"bee retry":             {"retry nosuch", "retry done", "retry"},
		"bee run": {
			"run -n job.yaml", "run --wait 5 job.yaml", "run nosuch.yaml", "run broken.yaml", "run --json broken.yaml", "run .", "run -n 0 job.yaml", "run --memory lots job.yaml", "run docker-archive:nosuch.tar ls", "run -e =x -e A-B=c job.yaml",
			"run --site nope job.yaml", "run --pull no job.yaml", "run --time 30 job.yaml", "run job.yaml echo hello", "run run.sbatch", "run bb.tar ls -l /", "run . ls /", "run --again nosuch", "run --again done job.yaml", "run --ticket run.ticket job.yaml", "run -d --ticket run.ticket job.yaml", "run",
		},
		"bee plan":            {"plan job.yaml", "plan --json job.yaml", "plan nosuch.yaml", "plan broken.yaml", "plan run.sbatch", "plan"},
		"bee check":           {"check job.yaml", "check forgetful.yaml", "check broken.yaml", "check --json broken.yaml", "check sites.yaml", "check nosuch.yaml", "check .", "check ''", "check run.sbatch", "check compose.yaml", "check app.def", "check sky.yaml", "check run.sh", "check"},
		"bee convert":         {"convert nosuch.json", "convert .", "convert broken.yaml", "convert run.sbatch", "convert"},
		"bee schema":          {"schema nosuch", "schema"},
		"bee init":            {"init", "init", "init --from run.sbatch -o sbatch.yaml", "init --from nosuch -o other.yaml", "init --sites", "init x", "init run.sbatch"},
		"bee cloud types":     {"cloud types", "cloud types --json"},
		"bee doctor":          {"doctor x"},
		"bee info":            {"info", "info x"},
		"bee metrics":         {"metrics", "metrics x", "metrics --json"},
		"bee version":         {"version", "version x"},
		"bee completion":      {"completion nosuch"},
		"bee completion bash": {"completion bash x"},
		"bee drive":           {"drive"},
		"bee bench":           {"bench nosuch"},
		"bee bench check":     {"bench check bench/good.yaml", "bench check bench/broken.yaml", "bench check --json bench/broken.yaml", "bench check nosuch.yaml", "bench check"},
		"bee bench ls":        {"bench ls", "bench ls x"},
		"bee bench show":      {"bench show bench/good.yaml", "bench show --yaml bench/good.yaml", "bench show nosuch", "bench show"},
		"bee bench plan":      {"bench plan bench/broken.yaml", "bench plan nosuch", "bench plan"},
		"bee bench run":       {"bench run bench/broken.yaml", "bench run nosuch", "bench run"},
		"bee bench calibrate": {"bench calibrate nosuch", "bench calibrate --env nosuch"},
		"bee bench resume":    {"bench resume nosuch", "bench resume"},
		"bee bench report":    {"bench report nosuch", "bench report"},
		"bee bench compare":   {"bench compare nosuch neither", "bench compare x"},
		"bee burst simulate": {
			"burst simulate --model paper --set nodes=1,10,20 --set hit=0%,50%,100%", "burst simulate --model events --set io_nodes=1,4,20 --set write=2GB --set read=1GB",
			"burst simulate --model none", "burst simulate --set nodes=x", "burst simulate --csv --json", "burst simulate --csv --figures x",
		},
		"bee burst":          {"burst nosuch"},
		"bee image":          {"image nosuch"},
		"bee image ls":       {"image ls", "image ls --json", "image ls x"},
		"bee image show":     {"image show nosuch:1", "image show sha256:00", "image show"},
		"bee image pull":     {"image pull Ubuntu", "image pull docker-archive:nosuch.tar", "image pull --platform blah debian", "image pull"},
		"bee image import":   {"image import nosuch.tar", "image import"},
		"bee image build":    {"image build nosuch.yaml", "image build broken.yaml", "image build"},
		"bee image push":     {"image push nosuch:1 127.0.0.1:1/x", "image push x"},
		"bee image save":     {"image save nosuch:1 --output x.tar", "image save nosuch:1 --output x.tar --format zip", "image save nosuch:1"},
		"bee image rm":       {"image rm nosuch:1", "image rm"},
		"bee image prune":    {"image prune", "image prune --json", "image prune x"},
		"bee vm":             {"vm nosuch"},
		"bee vm image":       {"vm image nosuch"},
		"bee vm image build": {"vm image build --arch mips", "vm image build --no-proxy localhost", "vm image build --docker-deb nope.deb", "vm image build --copy nope:/there", "vm image build --script nope"},
		"bee vm image ls":    {"vm image ls"},
		"bee vm image show":  {"vm image show nosuch:1"},
		"bee vm image rm":    {"vm image rm nosuch:1"},
		"bee vm shell":       {"vm shell pi dmesg", "vm shell pi 1 dmesg", "vm shell done", "vm shell nosuch"},
		"bee vm console":     {"vm console pi x", "vm console done", "vm console nosuch"},
		"bee vm snapshot":    {"vm snapshot done out", "vm snapshot nosuch out", "vm snapshot done"},
		"bee vm restore":     {"vm restore nosuch", "vm restore --json nosuch", "vm restore"},
		"bee fabric":         {"fabric nosuch"},
		"bee emulate":        {"emulate nosuch"},
		"bee emulate hosts":  {"emulate hosts done", "emulate hosts nosuch", "emulate hosts"},
		"bee emulate link":   {"emulate link pi 1 sideways", "emulate link nosuch 1 up"},
		"bee emulate kill":   {"emulate kill pi", "emulate kill nosuch 1"},
		"bee emulate exec":   {"emulate exec nosuch 1 true", "emulate exec pi"},
		"bee emulate dial":   {"emulate dial pi x"},
		"bee data":           {"data nosuch"},
		"bee data ls":        {"data ls nosuch.img", "data ls job.yaml", "data ls"},
		"bee data load":      {"data load nosuch.img out", "data load x"},
		"bee data unload":    {"data unload nosuch.img out"},
		"bee volume":         {"volume nosuch"},
		"bee volume ls":      {"volume ls"},
		"bee volume check":   {"volume check nosuch", "volume check"},
		"bee volume status":  {"volume status nosuch", "volume status x y"},
		"bee volume mount":   {"volume mount x"},
		"bee volume umount":  {"volume umount nosuch"},
		"bee volume drain":   {"volume drain nosuch"},
		"bee volume recover": {"volume recover nosuch"},
		"bee volume forget":  {"volume forget nosuch"},
	}
}

// goldenText is the content of a command's golden file. Its clock is fixed: it begins at
// midnight of 1 January 2000, in UTC, and runs on only while a command waits.
func goldenText(t *testing.T, path string, lines []string) string {
	home, err := os.MkdirTemp("/dev/shm", "bee-golden-") // as a disk takes its time for each record
	if err != nil {
		home = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	t.Chdir(goldenFiles(t, home))
	signals := make(chan os.Signal, 1) // this process is the controller, and obeys no TERM
	signal.Notify(signals, syscall.SIGTERM)
	defer signal.Stop(signals)
	testkit.Setenv(t, []string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config"), "XDG_DATA_HOME=" + filepath.Join(home, "data"), "XDG_RUNTIME_DIR=" + home, "DOCKER_CONFIG=" + home, "BEE_SITES=sites.yaml", "SLURM_JOB_ID=",
		"PATH=" + filepath.Join(home, "bin"), "LC_ALL=C.UTF-8", "NO_COLOR=1", "COLUMNS=",
	})
	var text strings.Builder
	helpOf := strings.Fields(path + " --help")[1:]
	synctest.Test(t, func(t *testing.T) {
		d := goldenDesk(t, home)
		text.WriteString(d.transcript(path+" --help", helpOf))
		for _, line := range lines {
			words := strings.Fields(line)
			for i := range words {
				words[i] = strings.Trim(words[i], "'")
			}
			text.WriteString("\n" + d.transcript("bee "+line, words))
		}
		d.store.Close()
	})
	sizes := regexp.MustCompile(`(?m)^((?:state|cache) .*: ).*( free)$`) // of bee info, on this machine
	return strings.NewReplacer(home, "HOME", setupcmd.VersionText(Version), "VERSION", runtime.Version(), "GO", strconv.Quote(Version), `"VERSION"`).Replace(sizes.ReplaceAllString(text.String(), "${1}SIZE, SIZE${2}"))
}

// goldenFiles makes the files that the command lines name, below a directory, and returns
// theirs.
func goldenFiles(t *testing.T, home string) string {
	work := filepath.Join(home, "work")
	files := map[string]string{
		"job.yaml":       "image: docker.io/library/debian:12\nname: pi\nnodes: 2\nrun: ./pi\n",
		"forgetful.yaml": "image: docker.io/library/debian:12\nworkdir: /work\nrun: ./compute > result\n",
		"broken.yaml":    "image: a\nnodes: 0\nsites: [locla]\nretry: many\nnode: 2\n",
		"sites.yaml":     "sites: [{name: cluster, provider: slurm}]\n",
		"run.sbatch":     "#!/bin/sh\n#SBATCH -N 2\n#SBATCH --array=1-3\nmpirun ./app x.cfg\n",
		"compose.yaml":   "services: {solver: {image: lab/solver:2.1}}\n",
		"app.def":        "Bootstrap: docker\nFrom: debian:12\n",
		"sky.yaml":       "num_nodes: 2\nresources: {accelerators: A100}\nrun: ./app\n",
		"run.sh":         "#!/bin/sh\n./app\n",
		"bb.tar":         strings.Repeat("\x00", 257) + "ustar",
		"app":            "", "x.cfg": "", "in.melt": "units lj\n", "pi.py": "from mpi4py import MPI\n",
	}
	for _, study := range []string{"good.yaml", "broken.yaml"} {
		raw, err := os.ReadFile(filepath.Join(testkit.Begun(), "testdata", "bench", study))
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Join("bench", study)] = string(raw)
	}
	testkit.WriteFiles(t, work, files)
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o755); err != nil { // where there is no program
		t.Fatal(err)
	}
	return work
}

// goldenDesk is a state directory with runs in many states. This process is the controller of
// those that are not over, but for one.
func goldenDesk(t *testing.T, home string) *desk {
	seven, zero := 7, 0
	now := time.Now()
	lost := state.Record{Why: "it is the first of the sites", Kind: "lost", Message: "host n1 was lost", Remedy: "Look after n1.", Hosts: []core.Host{{Name: "n0"}, {Name: "n1"}}, Runtime: "rootless"}
	computing := state.Record{
		Why: "it is free", Hosts: []core.Host{{Name: "n2"}, {Name: "n3"}}, Runtime: "podman", Span: time.Hour, Margin: 90 * time.Second, MarginWhy: "as the last checkpoint took 30.0s",
		Phases: map[core.Phase]time.Duration{core.PhaseAcquire: 2 * time.Second, core.PhaseImage: 40 * time.Second},
	}
	whole := runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) { s.Sites = []spec.Site{{Name: "lab", Provider: "local"}} })
	runs := []state.Run{
		{ID: "aaaa1111", Name: "pi", State: state.Running, Submission: whole.Submission, Image: "sha256:0123"},
		{ID: "bbbb1111", Name: "md", State: state.Suspended, Suspended: state.ReasonNoSite, Message: "no site can take the run now: cluster: maintenance", Remedy: "Add a site, or resume it later."},
		{ID: "cccc1111", Name: "cfd", State: state.Failed, Kind: "lost", Message: "host n1 was lost", Remedy: "Look after n1.", Ended: now.Add(-time.Hour)},
		{ID: "dddd1111", Name: "done", State: state.Succeeded, ExitCode: &zero, Ended: now.Add(-30 * time.Minute), Submission: whole.Submission, Image: "sha256:0123"},
		{ID: "eeee1111", Name: "later", State: state.Queued},
		{ID: "ffff1111", Name: "two", State: state.Suspended, Suspended: state.ReasonAdopted},
		{ID: "gggg1111", Name: "two", State: state.Suspended, Suspended: state.ReasonAdopted},
		{ID: "hhhh1111", Name: "left", State: state.Failed, ExitCode: &seven, Message: "exit code 7", Ended: now.Add(-time.Minute)},
		{ID: "iiii1111", Name: "three", State: state.Running},
	}
	d := &desk{t: t, dir: home}
	var err error
	if d.store, err = state.Open(t.Context(), filepath.Join(home, "s")); err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range runs {
		r.Created = now.Add(time.Duration(i)*time.Second - 2*time.Hour)
		if r.Submission == nil {
			r.Submission = json.RawMessage(`{"version": 1, "job": {"Nodes": 1}}`)
		}
		check(d.store.PutRun(t.Context(), r))
		if !r.State.Final() && r.Name != "three" {
			lock, err := d.store.Locks().Acquire(r.ID)
			check(err)
			t.Cleanup(func() { _ = lock.Unlock() })
		}
	}
	for _, at := range []state.Attempt{
		{Run: "aaaa1111", N: 1, Site: "rack", Provider: "ssh", State: state.Closed, Result: state.Lost, Started: now.Add(-110 * time.Minute), Ended: now.Add(-40 * time.Minute), Record: lost},
		{Run: "aaaa1111", N: 2, Site: "lab", Provider: "local", State: state.Computing, Started: now.Add(-30 * time.Minute), Record: computing},
		{Run: "cccc1111", N: 1, Site: "rack", Provider: "ssh", State: state.Closed, Result: state.Lost, Started: now.Add(-110 * time.Minute), Ended: now.Add(-time.Hour), Record: lost},
		{Run: "dddd1111", N: 1, Site: "lab", Provider: "local", State: state.Closed, Result: state.Exited, Started: now.Add(-110 * time.Minute), Ended: now.Add(-30 * time.Minute), Record: state.Record{
			Hosts: []core.Host{{Name: "n2"}, {Name: "n3"}}, Runtime: "podman", ExitCode: &zero, Outputs: []state.Arrived{{To: "/home/ann/pi", Count: 1, Names: []string{"pi.txt"}}},
			Nodes: []core.NodeReport{{Rank: 0, Host: "n2", Runtime: "podman", Cores: 8, MaxRSS: 3 << 20}, {Rank: 1, Host: "n3", Runtime: "podman", Cores: 8, MaxRSS: 4 << 20, MemoryKills: 1}},
		}},
		{Run: "hhhh1111", N: 1, Site: "rack", Provider: "ssh", Result: state.Exited, Started: now.Add(-2 * time.Minute), Record: state.Record{ExitCode: &seven}},
	} {
		check(d.store.PutAttempt(t.Context(), at, false))
	}
	for i, f := range []event.Fields{
		event.Backoff{Attempts: 3, Shorter: event.Seconds(time.Minute), Pause: event.Seconds(30 * time.Second)},
		event.Moved{Site: "rack", Cause: event.Cause{Kind: "lost", Message: "host n1 was lost"}},
		event.Suspended{Site: "rack", Reason: string(state.ReasonNoSite), Cause: event.Cause{Kind: "transient", Message: "maintenance"}},
	} {
		_, err := d.store.AddEvent(t.Context(), event.Event{Run: "bbbb1111", Attempt: 1, Time: now.Add(time.Duration(i-60) * time.Minute), Fields: f})
		check(err)
	}
	dir := d.store.RunDir("dddd1111")
	check(os.MkdirAll(dir, 0o700))
	check(os.WriteFile(filepath.Join(dir, "controller.log"), []byte("begun\nended\n"), 0o600))
	check(os.WriteFile(control.NodeLog(dir, 1, 0), []byte("node begun\n"), 0o600))
	f, err := os.Create(control.OutputLog(dir, 1))
	check(err)
	w := tasklog.New(f)
	check(errors.Join(w.Write(tasklog.Stdout, []byte("pi is 3.14\n")), w.Write(tasklog.Stderr, []byte("done\n")), w.Close()))
	return d
}

// transcript runs a command line and returns what it printed: standard output as it is, each
// line of standard error behind a mark, and its exit code where that is not 0.
func (d *desk) transcript(shown string, args []string) string {
	var out, errs bytes.Buffer
	a := newApp(&out, &errs)
	root := a.newRoot()
	root.SetOut(&out)
	root.SetErr(&errs)
	code := a.execute(d.t.Context(), root, append([]string{"--state-dir", filepath.Join(d.dir, "s"), "--cache", filepath.Join(d.dir, "c")}, args...))
	text := "$ " + shown + "\n" + out.String()
	if !strings.HasSuffix(text, "\n") {
		text += "\n(without an end of line)\n"
	}
	for line := range strings.Lines(errs.String()) {
		text += "standard error: " + strings.TrimSuffix(line, "\n") + "\n"
	}
	if code != 0 {
		text += fmt.Sprintf("exit code: %d\n", code)
	}
	return text
}
