package e2e

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestASiteBehindSSHThatIsGoneForGood holds its run until its user says that it is
// lost: then the run continues from the checkpoint on the submitting machine, or ends. What is left on
// the site is removed once it answers again.
func TestASiteBehindSSHThatIsGoneForGood(t *testing.T) {
	t.Parallel()
	b, farm, job := rack(t, 1, "workdir: /work", "checkpoint: {grace: 3s, every: 1s, paths: [/work/state]}",
		"outputs: [{from: /work/*, to: results}]", "run: "+strings.Replace(steadyCounter, "80", "240", 1))
	sites := b.Read("sites.yaml")
	begin := func() string {
		t.Helper()
		b.File("sites.yaml", sites)
		id := strings.TrimSpace(b.Must("run", "-d", job))
		testkit.Eventually(t, 60*time.Second, func() error {
			var v struct{ Checkpoints []struct{ Files int } }
			if b.JSON(&v, "show", "--json", id); len(v.Checkpoints) == 0 {
				return b.Explained(id, "no checkpoint is at home")
			}
			return nil
		})
		return id
	}
	held := func(id string) {
		t.Helper()
		if r := b.Try("resume", "--site-lost", id); r.Code != 201 || !strings.Contains(r.Stderr, " rack ") {
			t.Errorf("while it answers: %+v", r)
		}
		if err := farm.Link(t.Context(), 0, false); err != nil {
			t.Fatal(err)
		}
		printed(t, b, id, event.KindUnreachable, `"site":"rack"`)
		for _, command := range []string{"`bee resume --site-lost " + id + "`", "`bee stop --site-lost " + id + "`"} {
			if text := b.Must("show", id); !strings.Contains(text, command) {
				t.Errorf("%s is not shown as a remedy:\n%s", command, text)
			}
		}
		if r := b.Try("logs", id); r.Code != 205 || !strings.Contains(r.Stderr, " run "+id+" on site rack") {
			t.Errorf("its output: %+v", r)
		}
	}
	back := func() {
		t.Helper()
		if err := farm.Link(t.Context(), 0, true); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, func() error {
			if r := b.Try("sweep"); r.Code != 0 {
				return errors.New(r.Stderr)
			}
			return nil
		})
		left(t, farm)
	}

	id := begin()
	held(id)
	b.File("sites.yaml", sites+"  - {name: laptop, provider: local}\n")
	if r := b.Try("resume", "--site-lost", "--site", "laptop", id); r.Code != 0 || !strings.Contains(r.Stderr, "attempt 1 ") || !strings.Contains(r.Stderr, " on h0") {
		t.Fatalf("resume: %+v", r)
	}
	v := b.Await(id, 3*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "laptop" || v.Attempts[0].Error == nil || v.Attempts[0].Error.Kind != "lost" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || b.Read("results/done") != "240\n" {
		t.Errorf("attempts began %q", log)
	}
	back()

	id = begin()
	held(id)
	r := b.Try("stop", "--site-lost", id)
	if v := b.Await(id, 10*time.Second); r.Code != 0 || v.State != "stopped" || !strings.Contains(r.Stderr, "attempt 1 ") || !strings.Contains(r.Stderr, " on h0") {
		t.Fatalf("stop: %+v, the run: %+v\n%s", r, v, b.Must("show", id))
	}
	back()
	b.CheckNothingLeft(20 * time.Second)
}
