package hostile

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAPoisonedRecordEndsOneRun: a run whose record does not parse is set aside, in a
// process that carries others too. It is explained, ended and forgotten.
func TestAPoisonedRecordEndsOneRun(t *testing.T) {
	for name, damage := range map[string]string{
		"a record that is cut off":   "UPDATE attempts SET record='{\"hosts\":[' WHERE run=?",
		"a lease of another shape":   "UPDATE attempts SET lease='[]' WHERE run=?",
		"a submission that is none":  "UPDATE runs SET submission='7' WHERE id=?",
		"numbers that are none":      "UPDATE attempts SET started='x', record='null', lease='{}' WHERE run=?",
		"a lease without any driver": "UPDATE attempts SET lease='{\"data\":[1]}' WHERE run=?",
	} {
		t.Run(name, func(t *testing.T) {
			b, job := busyboxJob(t, "run: 'touch log; while [ ! -e go ]; do sleep 0.1; done'", "volume: /data", "workdir: /data")
			bad, good := strings.TrimSpace(b.Must("run", "-d", job)), strings.TrimSpace(b.Must("run", "-d", job))
			for _, id := range []string{bad, good} {
				testkit.Eventually(t, 60*time.Second, func() error {
					if r := b.Try("exec", id, "--", "test", "-e", "log"); r.Code != 0 {
						return errors.New(r.Stderr)
					}
					return nil
				})
			}
			testkit.Kill(testkit.AwaitControllers(t, b, 1)[0])
			s, err := state.Open(t.Context(), filepath.Join(b.Dir, "state"))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(s.Exec(t.Context(), damage, bad), s.Close()); err != nil {
				t.Fatal(err)
			}
			b.Must("supervise") // has both continued
			b.Touch(good, "go")
			if v := b.Await(good, 30*time.Second); v.State != "succeeded" {
				t.Errorf("the other run: %+v", v)
			}
			v := b.Await(bad, 30*time.Second)
			if v.State == "succeeded" || v.Error == nil {
				t.Errorf("the poisoned run: %+v", v)
			}
			if r := b.Try("rm", "-f", bad); r.Code != 0 {
				t.Errorf("rm -f: %+v", r)
			}
			if out := b.Must("ps", "-aq"); strings.TrimSpace(out) != good {
				t.Errorf("there are %q, want %s", out, good)
			}
			b.Try("sweep")
		})
	}
}
