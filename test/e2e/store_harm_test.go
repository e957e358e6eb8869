package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestADamagedStoreGivesTheCheckpointBefore: of the newer one a bit flips, or a
// part is gone.
func TestADamagedStoreGivesTheCheckpointBefore(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(string) error{"a bit flips": drivertest.Flip, "a part is gone": os.Remove} {
		for _, kind := range []string{"directory", "bucket"} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				files := ""
				s := beginStored(t, func(b *testkit.Bee, f *sshfarm.Farm) string {
					if kind == "bucket" {
						server := s3server.Start(t)
						files = server.Dir
						return bucketStore(b, server)
					}
					files = directoryStore(b, f)
					return files
				})
				s.Must("checkpoint", s.id)
				testkit.Eventually(t, time.Minute, func() error {
					if r := s.Try("exec", s.id, "--", "sh", "-c", "test $(wc -l </data/log) = 2"); r.Code != 0 {
						return s.Explained(s.id, r.Stderr)
					}
					return nil
				})
				first := drivertest.Files(t, files)
				time.Sleep(time.Second) // in which it counts
				s.suspended(t)
				if err := harm(newData(t, files, first)); err != nil {
					t.Fatal(err)
				}
				s.Must("--sites", s.laptop(), "resume", "--site", "laptop", s.id)
				s.completes(t, "")
				if log := strings.Fields(s.Read("results/log")); len(log) != 4 {
					t.Errorf("it did not go on from the first checkpoint: %q", log)
				}
				if !strings.Contains(s.Must("show", s.id), "damaged") {
					t.Error("nothing tells of the damage")
				}
				s.Must("rm", s.id)
			})
		}
	}
}

// newData gives a file with data of a checkpoint, not its manifest, that was not
// there before.
func newData(t *testing.T, dir string, before map[string]int64) string {
	t.Helper()
	for name := range drivertest.Files(t, dir) {
		if strings.Contains(name, "manifest") {
			before[name] = 0
		}
	}
	return drivertest.Largest(t, dir, before)
}

// TestAStoreThatCannotBeUsed is reported before anything is computed.
func TestAStoreThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "checkpoint: {grace: 3s, paths: [/work/a]}", "outputs: [{from: /work/a, to: results}]", "store: ./not-mounted", "run: echo computing")
	r := b.Try("run", job)
	if r.Code == 0 || strings.Contains(r.Stdout, "computing") || !strings.Contains(r.Stderr, "not-mounted") || r.Code != 205 {
		t.Errorf("a directory that is not there: %+v", r)
	}
	if p := b.Try("plan", job); p.Code != r.Code || !strings.Contains(p.Stderr, "not-mounted") || !strings.Contains(r.Stderr, strings.TrimPrefix(p.Stderr, "bee: ")) {
		t.Errorf("a plan says of it: %+v, and a run: %+v", p, r)
	}
	server := s3server.Start(t)
	b.Env = append(append(b.Env, server.Env()...), "AWS_SECRET_ACCESS_KEY=of-somebody-else")
	b.File("job.yaml", strings.Replace(b.Read("job.yaml"), "./not-mounted", "s3://"+server.Bucket+"/x", 1))
	r = b.Try("run", job)
	if r.Code == 0 || strings.Contains(r.Stdout, "computing") || !strings.Contains(r.Stderr, "AWS_SECRET_ACCESS_KEY") || strings.Contains(r.Stderr, "of-somebody-else") {
		t.Errorf("a key that is refused: %+v", r)
	}
}
