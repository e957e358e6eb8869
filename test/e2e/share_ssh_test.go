package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
)

// TestRunsShareARack: where a host is in use, a run takes the next one, and waits where all
// are, whichever machine has submitted the others.
func TestRunsShareARack(t *testing.T) {
	t.Parallel()
	b, _, job := rack(t, 2, "cores: 2", "volume: /data", "workdir: /data", "run: 'touch begun; while [ ! -e go ]; do sleep 0.1; done'")
	var ids []string
	hosts := map[string]bool{}
	for _, name := range []string{"one", "two"} {
		id := strings.TrimSpace(b.Must("run", "-d", "--name", name, job))
		inProgress(t, b, id)
		b.Env = append(b.Env, "SSH_AUTH_SOCK=/elsewhere/"+name) // the next one has a controller and a connection of its own
		ids = append(ids, id)
	}
	third := strings.TrimSpace(b.Must("run", "-d", "--name", "three", job))
	printed(t, b, third, event.KindNoSite, "2 of its 2 cores")
	for _, id := range append(ids, third) {
		if id == third {
			inProgress(t, b, id)
		}
		b.Touch(id, "/data/go")
		v := b.Await(id, time.Minute)
		if v.State != "succeeded" {
			t.Errorf("run %s: %+v\n%s", id, v, b.Must("show", id))
		}
		if id != third && len(v.Attempts) == 1 {
			hosts[v.Attempts[0].Hosts[0]] = true
		}
	}
	if len(hosts) != 2 {
		t.Errorf("two runs, both with all cores of a host, used %v", hosts)
	}
}
