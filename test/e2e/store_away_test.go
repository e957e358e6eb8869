package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestAStoreThatIsAway: the volume stays on its site until the store is there
// again, and nothing else happens meanwhile.
func TestAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	var server *s3server.Server
	s := beginStored(t, func(b *testkit.Bee, _ *sshfarm.Farm) string {
		server = s3server.Start(t)
		return bucketStore(b, server)
	}, "run: "+heldCounter("$BEE_ATTEMPT = 1"))
	server.Stop()
	s.Must("checkpoint", s.id)
	testkit.Eventually(t, 90*time.Second, func() error {
		if testkit.Events(s.Bee, s.id, event.KindCheckpointDeferred, `"site":"rack"`) == 0 {
			return s.Explained(s.id, "its history does not say so")
		}
		return nil
	})
	if volumes, _ := filepath.Glob(filepath.Join(s.farm.Private, "bee-h0", "bee", s.id, "volume", "state")); len(volumes) != 1 {
		t.Errorf("the site holds %v", volumes)
	}
	server.Restart()
	v := s.Await(s.id, 3*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v\n%s", v, s.Must("show", s.id))
	}
	if log := s.Read("results/log"); !strings.HasPrefix(log, "from 0\nfrom ") || strings.HasSuffix(log, "from 0\n") || s.Read("results/done") != "60\n" {
		t.Errorf("attempts began %q", log)
	}
	s.Must("rm", s.id)
}

// TestControllersDieWhileAStoreIsWritten: again and again, in each kind of store.
// No secret is in what they leave.
func TestControllersDieWhileAStoreIsWritten(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(*testkit.Bee, *sshfarm.Farm) string{
		"directory": directoryStore, "ssh": farStore,
		"bucket": func(b *testkit.Bee, _ *sshfarm.Farm) string { return bucketStore(b, s3server.Start(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := beginStored(t, store, "setup: head -c 100000000 /dev/urandom >noise; md5sum noise >sum", "run: "+strings.Replace(heldCounter("$BEE_ATTEMPT = 1"), "|\n", "|\n  md5sum -c sum || exit 9\n", 1))
			s.Must("checkpoint", s.id)
			lock, deaths := filepath.Join(s.Dir, "state", "runs", s.id, "lock"), 0
			for range 15 {
				time.Sleep(time.Duration(rand.IntN(900)) * time.Millisecond)
				raw, _ := os.ReadFile(lock)
				for _, p := range s.Processes() { // the number may be another's by now
					if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && strings.HasPrefix(p, strconv.Itoa(pid)+" ") {
						testkit.Kill(pid)
						deaths++
					}
				}
				s.Must("supervise")
			}
			v := s.Await(s.id, 3*time.Minute)
			if v.State != "succeeded" {
				t.Fatalf("after %d deaths: %+v\n%s", deaths, v, s.Must("show", s.id)+s.Try("logs", "--controller", s.id).Stdout)
			}
			log := strings.Fields(strings.ReplaceAll(s.Read("results/log"), "from ", ""))
			if s.Read("results/done") != "60\n" || len(log) < 2 || log[len(log)-1] == "0" {
				t.Errorf("attempts began at %v", log)
			}
			s.Must("rm", s.id)
			for file := range drivertest.Files(t, filepath.Join(s.Dir, "state")) {
				if raw, _ := os.ReadFile(file); strings.Contains(string(raw), s3server.Secret) {
					t.Errorf("%s holds the store's secret", file)
				}
			}
		})
	}
}
