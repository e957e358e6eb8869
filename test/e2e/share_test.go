package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestRunsWaitForEachOther: of runs that together need more cores than a site has, some wait,
// with the reason, also where no controller is there; and they start when there is room.
func TestRunsWaitForEachOther(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "volume: /data", "workdir: /data", "run: 'touch begun; while [ ! -e go ]; do sleep 0.1; done'")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites: [{name: laptop, provider: local, slots: 2}]\n"))
	quick := b.File("quick.yaml", strings.NewReplacer("name: small", "name: quick\ncores: 2").Replace(b.Read("job.yaml")[:strings.Index(b.Read("job.yaml"), "volume:")])+"run: echo done\n")
	first := strings.TrimSpace(b.Must("run", "-d", job))
	inProgress(t, b, first)
	if plan := b.Must("plan", quick); !strings.Contains(plan, "run "+first) || !strings.Contains(plan, " 2 cores") {
		t.Errorf("the plan of one that needs both:\n%s", plan)
	}
	second := strings.TrimSpace(b.Must("run", "-d", quick))
	printed(t, b, second, event.KindNoSite, "run "+first)
	if v := b.Must("show", second); !strings.Contains(v, "laptop: run "+first) {
		t.Errorf("bee show does not say what it waits for:\n%s", v)
	}
	if ps := b.Must("ps"); !strings.Contains(ps, "queued") {
		t.Errorf("bee ps:\n%s", ps)
	}
	testkit.Kill(testkit.AwaitControllers(t, b, 1)[0])
	testkit.AwaitControllers(t, b, 0)
	if plan := b.Must("plan", quick); !strings.Contains(plan, "run "+first) {
		t.Errorf("without a controller, its node holds nothing:\n%s", plan)
	}
	b.Must("supervise")
	b.Touch(first, "/data/go")
	for _, id := range []string{first, second} {
		if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 1 {
			t.Errorf("run %s: %+v\n%s", id, v, b.Must("show", id))
		}
	}
}

func inProgress(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	testkit.Eventually(t, 60*time.Second, func() error {
		if r := b.Try("exec", id, "test", "-e", "/data/begun"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
}

// TestSixRunsOnOneCore are never two at a time.
func TestSixRunsOnOneCore(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "mounts: [{from: "+t.TempDir()+", to: /shared, write: true}]", "run: 'mkdir /shared/one && sleep 0.2 && rmdir /shared/one'")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites: [{name: laptop, provider: local, slots: 1}]\n"))
	var ids []string
	for i := range 6 {
		ids = append(ids, strings.TrimSpace(b.Must("run", "-d", "--name", fmt.Sprint("run", i), job)))
	}
	for _, id := range ids {
		if v := b.Await(id, 2*time.Minute); v.State != "succeeded" {
			t.Errorf("run %s: %+v\n%s", id, v, b.Must("show", id))
		}
	}
}
