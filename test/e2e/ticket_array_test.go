package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestTicketOfAnArray moves the control of an array between machines with empty homes. The
// last case begins once the first one is over, so that has ended before the ticket is made. Of two
// machines at once, one adopts all other cases, and the other one none.
func TestTicketOfAnArray(t *testing.T) {
	t.Parallel()
	first, farm, job := rack(t, 2, "array: {cases: {n: [1, 2, 3]}, at_once: 2}",
		"run: '[ ${case.n} = 1 ] || until [ -e /work/go ]; do sleep 0.1; done; echo result-${case.n} >/work/out; [ ${case.n} != 3 ]'",
		"outputs: [{from: /work/out, to: './results/${case.n}'}]")
	const key = "BEE_TICKET_KEY=ab40cd1e86f52c4d5a1b"
	first.Env = append(first.Env, key)
	ticket := filepath.Join(first.Work, "array.ticket")
	id := strings.TrimSpace(first.Must("run", "-q", "-d", "--ticket", ticket, job))
	if got := first.Read("results/1/out"); got != "result-1\n" {
		t.Errorf("the output of the case that was over is %q", got)
	}
	machines := make([]*testkit.Bee, 2)
	for i := range machines {
		b := testkit.NewBee(t)
		b.Env = append(append(b.Env, farm.Env()...), "BEE_SITES="+b.File("sites.yaml", first.Read("sites.yaml")), key)
		machines[i] = b
	}
	var both sync.WaitGroup
	ended := make([]testkit.Result, len(machines))
	for i, b := range machines {
		both.Go(func() { ended[i] = b.Try("resume", "--ticket", ticket) })
	}
	both.Wait()
	winner, loser := machines[0], machines[1]
	if ended[0].Code != 0 {
		winner, loser = loser, winner
	}
	if (ended[0].Code == 0) == (ended[1].Code == 0) {
		t.Fatalf("of two machines at once: %+v", ended)
	}
	if f := loser.Fail("wait", "--ticket", ticket); f.Kind != "busy" || f.Remedy == "" {
		t.Errorf("the machine that came second: %+v", f)
	}
	if out := loser.Must("ps", "-aq"); out != "" {
		t.Errorf("the machine that came second has records: %q", out)
	}
	first.Must("stop", id) // gives it up
	first.Must("sweep")    // keeps what another machine controls
	for n := 2; n <= 3; n++ {
		winner.Must("exec", fmt.Sprintf("small.%d", n), "--", "touch", "/work/go")
	}
	if r := winner.Try("wait", "-f", "--ticket", ticket, "--junit", "junit.xml"); r.Code != 1 {
		t.Errorf("the wait ended with %+v", r)
	}
	for n := 2; n <= 3; n++ {
		if got, want := winner.Read(fmt.Sprintf("results/%d/out", n)), fmt.Sprintf("result-%d\n", n); got != want {
			t.Errorf("the output of case %d is %q", n, got)
		}
	}
	if got := winner.Read("junit.xml"); !strings.Contains(got, `tests="3" failures="1" errors="0"`) {
		t.Errorf("the tests are\n%s", got)
	}
	left(t, farm)
}
