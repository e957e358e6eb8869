package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCommandsOfASeenAttempt: stop, move and resume with --attempt do nothing to a run whose last
// attempt is another one.
func TestCommandsOfASeenAttempt(t *testing.T) {
	sites := filepath.Join(t.TempDir(), "sites.yaml")
	if err := os.WriteFile(sites, []byte("sites:\n  - {name: a, provider: local}\n  - {name: b, provider: local}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		run     state.RunState
		attempt state.AttemptState
		args    []string
		want    []string
	}{
		"stop":   {state.Queued, state.InQueue, []string{"stop", "--no-wait"}, []string{"stop 1 overtaken", "stop 2 "}},
		"move":   {state.Queued, state.InQueue, []string{"move", "--site", "b"}, []string{"move 1 overtaken", "move 2 "}},
		"resume": {state.Suspended, state.Closed, []string{"resume"}, []string{"resume 1 overtaken", "resume 2 done"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: c.run, Submission: []byte(`{"version": 1, "sites": [{"Name": "a", "Provider": "local"}]}`)})
			for n, s := range []state.AttemptState{state.Closed, c.attempt} {
				if err := d.store.PutAttempt(t.Context(), state.Attempt{Run: "aaaa1111", N: n + 1, Site: "a", State: s, Started: time.Now()}, false); err != nil {
					t.Fatal(err)
				}
			}
			for _, seen := range []int{1, 2} {
				ok := seen == 2
				err := d.bee(append(append([]string{"--sites", sites}, c.args...), fmt.Sprintf("--attempt=%d", seen), "aaaa1111")...)
				if (err == nil) != ok {
					t.Errorf("attempt %d: %v, %s", seen, err, &d.err)
				}
				if r, err := d.store.Run(t.Context(), "aaaa1111"); err != nil || !ok && r.State != c.run {
					t.Errorf("the run is %s, %v", r.State, err)
				}
			}
			var got []string
			list, err := d.store.Requests().Of(t.Context(), "aaaa1111")
			for _, r := range list {
				got = append(got, fmt.Sprintf("%s %d %s", r.Kind, r.Attempt, r.Result))
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("requests %q, expected %q, %v", got, c.want, err)
			}
		})
	}
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running}, state.Run{ID: "bbbb2222", Name: "pj", State: state.Running})
	for _, args := range [][]string{{"stop", "--attempt", "1", "pi", "pj"}, {"stop", "--attempt", "1", "--all"}, {"stop", "--attempt", "-1", "pi"}, {"resume", "--attempt", "1", "--site-lost", "pi"}} {
		if err := d.bee(args...); err == nil || core.IsKind(err, core.NotFound) {
			t.Errorf("%q: %v", args, err)
		}
	}
	if left := d.left(); left != "aaaa1111 bbbb2222" {
		t.Errorf("asked to stop: %s", left)
	}
}
