package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestAfter: a run gets the files that the run before it has made, and begins when its
// supervisor was killed, too.
func TestAfter(t *testing.T) {
	b := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("mesh.yaml", "image: "+image+"\nrun: sleep 1000\n")
	b.File("model.yaml", "image: "+image+"\nafter: [{run: mesh, on: failure}, data]\ninputs: [{from: ./results/out, to: /work}]\nrun: cat out\n")
	b.File("data.yaml", "image: "+image+"\nrun: echo 42 > out\noutputs: [{from: out, to: ./results}]\n")
	mesh := strings.TrimSpace(b.Must("run", "-d", "-q", "mesh.yaml"))
	data := strings.TrimSpace(b.Must("run", "-d", "-q", "data.yaml"))
	model := strings.TrimSpace(b.Must("run", "-d", "-q", "model.yaml"))
	b.Await(data, time.Minute)
	if _, err := os.Stat(filepath.Join(b.Work, "results", "out")); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		var v struct{ State, Why string }
		b.JSON(&v, "show", "--json", model)
		if v.State != "queued" || !strings.Contains(v.Why, " run "+mesh) {
			return b.Explained(model, "it does not show what it waits for: "+v.State+", "+v.Why)
		}
		return nil
	})
	if r := b.Try("rm", data); r.Code == 0 || !strings.Contains(r.Stderr, model) {
		t.Errorf("a run that another one waits for is removed: %+v", r)
	}
	for _, pid := range b.Controllers() {
		testkit.Kill(pid)
	}
	b.Must("stop", "mesh")
	b.Must("supervise") // starts another one
	if r := b.Try("wait", model); r.Code != 0 {
		t.Fatal(b.Explained(model, "it does not begin"))
	}
	if out := b.Must("logs", model); out != "42\n" {
		t.Errorf("got %q", out)
	}
	b.Must("rm", data)
}

// TestPack: cases of a pack share one lease. They have volumes, logs and results of their own.
// One that has ended does not run again where the pack moves, also after kill -9 of its
// controller, and one that has answered continues.
func TestPack(t *testing.T) {
	b := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("sites.yaml", "sites:\n  - {name: one, provider: local}\n  - {name: two, provider: local}\n")
	b.File("model.yaml", "image: "+image+`
sites: [one, two]
cores: 1
array: {cases: {s: [fast, bad, slow]}, pack: 3}
checkpoint: {signal: TERM}
run: |
  echo "${case.s} of $BEE_CASE in $PWD" | tee -a begun
  trap 'exit 85' TERM
  test ${case.s} != bad || exit 3
  test ${case.s} = fast || test $(wc -l < begun) -gt 1 || while :; do sleep 0.1; done
outputs: [{from: begun, to: "./results/${case.s}"}]
`)
	array := strings.TrimSpace(b.Must("run", "--sites", "sites.yaml", "-d", "-q", "model.yaml"))
	type row struct {
		ID, Name, State, Pack string
		ExitCode              *int `json:"exit_code"`
		Attempts              []struct{ Site string }
	}
	list := func(array string) (cases []row) {
		t.Helper()
		b.JSON(&cases, "ps", array, "--json")
		return cases
	}
	testkit.Eventually(t, time.Minute, func() error {
		if c := list("model"); len(c) != 3 || c[0].ExitCode == nil || c[1].ExitCode == nil || c[2].State != "running" {
			return fmt.Errorf("they are %+v", c)
		}
		return nil
	})
	if r := b.Try("stop", "model.1"); r.Code == 0 || list("model")[2].State != "running" {
		t.Errorf("one case is stopped, with all others: %+v", r)
	}
	for _, pid := range b.Controllers() {
		testkit.Kill(pid)
	}
	b.Must("supervise")
	b.Must("move", "--sites", "sites.yaml", "--site", "two", "model.3")
	if r := b.Try("wait", array); r.Code != 3 {
		t.Fatal(b.Explained(list("model.packs")[0].ID, fmt.Sprintf("it ended with %+v", r)))
	}
	for name, lines := range map[string]string{"fast": "fast of 1 in /work\n", "bad": "bad of 2 in /work\n", "slow": "slow of 3 in /work\nslow of 3 in /work\n"} {
		if got, err := os.ReadFile(filepath.Join(b.Work, "results", name, "begun")); err != nil || string(got) != lines {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
	var states []string
	for _, c := range list("model") {
		states = append(states, c.State)
	}
	if got := strings.Join(states, " "); got != "succeeded failed succeeded" {
		t.Errorf("they have %s", got)
	}
	if packs := list("model.packs"); len(packs) != 1 || packs[0].State != "succeeded" || len(packs[0].Attempts) != 2 || packs[0].Attempts[1].Site != "two" {
		t.Errorf("the leases are %+v", packs)
	}
	if out := b.Must("logs", "model.3"); strings.Count(out, "\n") != 2 || strings.Contains(out, "fast") {
		t.Errorf("got %q", out)
	}
	b.Must("rm", array)
	if left := list("--all"); len(left) > 0 {
		t.Errorf("left are %+v", left)
	}
}

// TestArray: each case of an array is a run with values of its own. No more run at once than
// are to, also after kill -9 of their supervisor, and commands take the array for its cases.
func TestArray(t *testing.T) {
	b := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("model.yaml", "image: "+image+`
array: {cases: {s: {from: 1, to: 5}}, at_once: 2}
run: sleep ${case.s}000
`)
	array := strings.TrimSpace(b.Must("run", "-d", "-q", "model.yaml"))
	running := func(want string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			var cases []struct{ Name, State string }
			b.JSON(&cases, "ps", "model", "--json")
			var names []string
			for _, c := range cases {
				if c.State == "running" {
					names = append(names, c.Name)
				}
			}
			if got := strings.Join(names, " "); len(cases) != 5 || len(names) > 2 || got != want {
				return errors.New("these run: " + got)
			}
			return nil
		})
	}
	running("model.1 model.2")
	for _, pid := range b.Controllers() {
		testkit.Kill(pid)
	}
	b.Must("supervise")
	b.Must("stop", "model.1")
	running("model.2 model.3")
	if list := b.Must("ps"); strings.Count(list, "model") != 1 || !strings.Contains(list, array) || !strings.Contains(list, "1 of 5 cases over, 2 running, 1 stopped") {
		t.Errorf("an array is no line of its own:\n%s", list)
	}
	b.Must("stop", array)
	if over := b.Try("wait", array); strings.Count(over.Stdout, "stopped") != 5 {
		t.Errorf("got %+v", over)
	}
	b.Must("rm", "--force", array)

	b.File("study.yaml", "image: "+image+`
array: {cases: {t: [300, 310], s: [1, 2]}, exclude: [{t: 310, s: 2}]}
run: echo "$BEE_CASE of $BEE_CASE_NAME, ${case.t} ${case.s}" > out; test ${case.s} = 1
outputs: [{from: out, to: "./results/${case.t}/${case.s}"}]
`)
	var end struct {
		Cases  int
		States map[string]int
	}
	r := b.Try("run", "--json", "study.yaml")
	if err := json.Unmarshal([]byte(r.Stdout), &end); err != nil || r.Code != 1 || end.Cases != 3 || end.States["succeeded"] != 2 || end.States["failed"] != 1 {
		t.Errorf("%v: %+v of %+v", err, end, r)
	}
	for file, want := range map[string]string{"300/1": "1 of study.1, 300 1\n", "310/1": "3 of study.3, 310 1\n"} {
		if got, err := os.ReadFile(filepath.Join(b.Work, "results", file, "out")); err != nil || string(got) != want {
			t.Errorf("%s: %v, %q", file, err, got)
		}
	}
	if table := b.Must("show", "--csv", "study"); strings.Count(table, "\n") != 4 || !strings.Contains(table, ",case.s,case.t,state,") || !strings.Contains(table, ",study.3,1,310,succeeded,0,") {
		t.Errorf("got\n%s", table)
	}
	b.Must("run", "-q", "--after", "study:failure", image, "true")
	again := strings.TrimSpace(b.Must("retry", "-d", "-q", "study"))
	if r := b.Try("wait", again); r.Code != 1 || !strings.Contains(r.Stdout, "study.2\tfailed") {
		t.Errorf("got %+v", r)
	}
	b.File("halt.csv", "\ufeffs\r\n1\r\n2\r\n3\r\n")
	b.File("halt.yaml", "image: "+image+"\narray: {cases: {file: halt.csv}, at_once: 1, on_failure: stop}\nrun: exit ${case.s}\n")
	if r := b.Try("run", "--json", "halt.yaml"); json.Unmarshal([]byte(r.Stdout), &end) != nil || r.Code != 1 || end.States["failed"] != 1 || end.States["stopped"] != 2 {
		t.Errorf("the array continues: %+v", r)
	}
	if r := b.Try("logs", "model"); r.Code == 0 {
		t.Errorf("the array is still there: %+v", r)
	}
}
