package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestLookAtRuns waits for runs, lists some of them, and reads their events and last lines.
func TestLookAtRuns(t *testing.T) {
	bee := testkit.NewBee(t)
	bee.Oversubscribe()
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}, Entrypoint: []string{"sh", "-c"}})
	start := func(name, command string) string {
		return strings.TrimSpace(bee.Must("run", "-d", "-q", "--name", name, image, command))
	}
	good := start("md-good", "echo one; echo two; echo three")
	bad := start("md-bad", "exit 7")
	long := start("other", "echo begun; sleep 600")
	t.Cleanup(func() { bee.Must("stop", long) })

	if got := bee.Try("wait", good, bad); got.Code != 7 || !strings.Contains(got.Stdout, good+"\tmd-good\tsucceeded") || !strings.Contains(got.Stdout, bad+"\tmd-bad\tfailed") {
		t.Errorf("bee wait: %d, %q, %s", got.Code, got.Stdout, got.Stderr)
	}
	if got := bee.Try("wait", good); got.Code != 0 {
		t.Errorf("bee wait for one that succeeded: %d", got.Code)
	}
	if got := bee.Try("wait", "--any", long, good); got.Code != 0 || strings.Contains(got.Stdout, "other") {
		t.Errorf("bee wait --any: %d, %q", got.Code, got.Stdout)
	}
	if got := bee.Try("wait", "--timeout", "100ms", long); got.Code != 203 || !strings.Contains(got.Stderr, "bee show "+long) {
		t.Errorf("bee wait --timeout: %d, %q", got.Code, got.Stderr)
	}
	var views []testkit.RunView
	if bee.JSON(&views, "wait", "--json", good); len(views) != 1 || views[0].ID != good {
		t.Errorf("bee wait --json: %+v", views)
	}

	for args, want := range map[string]string{
		"--state failed": bad, "--status succeeded,failed --name md-g*": good, "-a --name md-*": bad + " " + good,
		"--state RUNNING": long, "--status failed --state " + bee.Dir + "/state": bad, "--state failed --state " + bee.Dir + "/other": "", "-a --site nowhere": "", "-a --since 1h --name other": long, "-a --since 1ns": "", "-a --limit 1 --name md-good": good,
	} {
		if got := strings.Join(strings.Fields(bee.Must(append([]string{"ps", "-q"}, strings.Fields(args)...)...)), " "); got != want {
			t.Errorf("bee ps %s: %q, expected %q", args, got, want)
		}
	}
	if got := bee.Try("ps", "--state", "done"); got.Code != 201 || !strings.Contains(got.Stderr, "succeeded") {
		t.Errorf("a state that is not known: %d, %s", got.Code, got.Stderr)
	}

	numbers := parsedMetrics(t, bee.Must("metrics"))
	for _, want := range []string{
		"bee_runs {'state': 'succeeded'} 1", "bee_runs {'state': 'failed'} 1", "bee_runs {'state': 'running'} 1",
		"bee_attempts {'site': 'local', 'state': 'running'} 1", "bee_attempts {'site': 'local', 'state': 'queued'} 0", "bee_attempts_ended {'site': 'local', 'verdict': 'task_failed'} 1",
	} {
		if !strings.Contains(numbers, want+"\n") {
			t.Errorf("bee metrics lacks %s:\n%s", want, numbers)
		}
	}

	if got := bee.Must("logs", "--tail", "2", good); got != "two\nthree\n" {
		t.Errorf("the last two lines are %q", got)
	}
	if got := bee.Must("logs", "--since", "1ns", good); got != "" {
		t.Errorf("what was written just now is %q", got)
	}
	if got := bee.Try("logs", "-f", good); got.Stdout != "one\ntwo\nthree\n" || !strings.Contains(got.Stderr, "succeeded") {
		t.Errorf("followed to the end: %q, %q", got.Stdout, got.Stderr)
	}

	var last int64
	kinds := map[string]bool{}
	for line := range strings.Lines(bee.Must("events", good)) {
		var e struct {
			Run    string    `json:"run"`
			Number int64     `json:"number"`
			Time   time.Time `json:"time"`
			Kind   string    `json:"kind"`
			Text   string    `json:"text"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Run != good || e.Number <= last || e.Time.IsZero() || e.Text == "" {
			t.Errorf("%v: %s", err, line)
		}
		last, kinds[e.Kind] = e.Number, true
	}
	if !kinds["attempt_state"] {
		t.Errorf("the kinds of events are %v", kinds)
	}
	if got := bee.Must("events", "-f", good); strings.Count(got, "\n") == 0 {
		t.Error("events of a run that is over, followed: none")
	}
	if got := bee.Must("events", "--since", "1h"); !strings.Contains(got, bad) || !strings.Contains(got, long) {
		t.Error("events of the last hour lack runs")
	}
}

// parsedMetrics has the parser of Prometheus' own client read OpenMetrics, and returns a
// line for each number.
func parsedMetrics(t *testing.T, text string) string {
	t.Helper()
	const python = "/usr/bin/python3" // Debian's, as the parser is
	if out, err := exec.Command(python, "-c", "import prometheus_client").CombinedOutput(); err != nil {
		testkit.Missing(t, "python3-prometheus-client is not installed: %s", out)
	}
	c := exec.Command(python, "-c", `import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        print(sample.name, sample.labels, sample.value)`)
	c.Stdin = strings.NewReader(text)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\nof %s", err, out, text)
	}
	return string(out)
}
