package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestTicket moves the control of a run between machines, each with an empty home: by the
// ticket and its key, by one machine at a time, with the outputs in the reader's directory.
func TestTicket(t *testing.T) {
	t.Parallel()
	first, farm, job := rack(t, 1, "env: {NOTE: a-word-of-the-job}", "run: 'until [ -e /work/go ]; do sleep 0.1; done; echo result >/work/out; exit 3'", "outputs: [{from: /work/out, to: ./results}]")
	first.Env = append(first.Env, "BEE_TICKET_KEY=", "BEE_SITES="+first.File("two.yaml", "sites:\n  - {name: here, provider: local}\n"+strings.TrimPrefix(first.Read("sites.yaml"), "sites:\n")))
	ticket := filepath.Join(first.Work, "run.ticket")
	refused := func(kind string, b *testkit.Bee, args ...string) {
		t.Helper()
		if f := b.Fail(args...); f.Kind != kind || f.Remedy == "" {
			t.Errorf("bee %q: %+v, want %s", args, f, kind)
		}
	}
	refused("invalid", first, "run", "-d", "--ticket", ticket, job)
	const key = "BEE_TICKET_KEY=ab40cd1e86f52c4d5a1b"
	first.Env = append(first.Env, key)
	refused("invalid", first, "run", "--ticket", ticket, job)
	refused("unsupported", first, "run", "-d", "--site", "here", "--ticket", ticket, job)
	if _, err := os.Lstat(ticket); err == nil {
		t.Error("an empty ticket is left of a run that failed")
	}
	id := strings.TrimSpace(first.Must("run", "-q", "-d", "--ticket", ticket, job))
	refused("invalid", first, "run", "-d", "--ticket", ticket, job)
	var v struct{ State, Suspended string }
	if first.JSON(&v, "show", "--json", id); v.State != "suspended" || v.Suspended != "ticket" {
		t.Errorf("where it was submitted: %+v", v)
	}
	sealed, err := os.ReadFile(ticket)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(ticket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the ticket's mode is %v, %v", info.Mode(), err)
	}
	for _, word := range []string{id, "a-word-of-the-job", farm.Private} {
		if bytes.Contains(sealed, []byte(word)) {
			t.Errorf("%q can be read in the ticket", word)
		}
	}
	fresh := func(key string) *testkit.Bee {
		b := testkit.NewBee(t)
		b.Env = append(append(b.Env, farm.Env()...), "BEE_SITES="+b.File("sites.yaml", first.Read("sites.yaml")), key)
		return b
	}
	second, third := fresh(key), fresh(key)
	second.Must("resume", "--ticket", ticket)
	refused("busy", third, "wait", "--ticket", ticket)
	if out := third.Must("ps", "-aq"); out != "" {
		t.Errorf("a record is left of a run that another machine controls: %q", out)
	}
	first.Must("stop", id) // gives it up
	first.Must("sweep")    // keeps what another machine controls
	third.Must("resume", "--machine-lost", "--ticket", ticket)
	third.Must("exec", id, "--", "touch", "/work/go")
	if r := third.Try("wait", "--ticket", ticket); r.Code != 3 {
		t.Errorf("the wait ended with %+v", r)
	}
	if got := third.Read("results/out"); got != "result\n" {
		t.Errorf("the output is %q", got)
	}
	second.Must("stop", id)
	refused("not found", fresh(key), "wait", "--ticket", ticket)
	left(t, farm)
}

// TestTicketOfAWaitingRun: where a site starts a run by itself, its ticket is made while the run
// waits in the queue.
func TestTicketOfAWaitingRun(t *testing.T) {
	t.Parallel()
	first, farm, job := cluster(t, 1, ", slot: 10m", "run: echo result >/work/out", "outputs: [{from: /work/out, to: ./results}]")
	const key = "BEE_TICKET_KEY=ab40cd1e86f52c4d5a1b"
	first.Env = append(first.Env, key)
	drain(t, farm)
	ticket := filepath.Join(first.Work, "run.ticket")
	id := strings.TrimSpace(first.Must("run", "-q", "-d", "--ticket", ticket, job))
	second := testkit.NewBee(t)
	second.Env = append(append(second.Env, farm.Farm.Env()...), "BEE_SITES="+second.File("sites.yaml", first.Read("sites.yaml")), key)
	second.Must("resume", "--ticket", ticket)
	undrain(t, farm)
	if v := second.Await(id, 60*time.Second); v.State != "succeeded" || len(v.Attempts) != 1 {
		t.Errorf("the run: %+v\n%s", v, second.Must("show", id))
	}
	if got := second.Read("results/out"); got != "result\n" {
		t.Errorf("the output is %q", got)
	}
	first.Must("stop", id)
}
