package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestARunWhoseSecretsCannotBeReadIsLeftAlone by commands that cannot read them either, such
// as `watch bee ps`: each would start a controller that does nothing but fill its log.
func TestARunWhoseSecretsCannotBeReadIsLeftAlone(t *testing.T) {
	const variable = "BEE_TEST_SECRET"
	dir := t.TempDir()
	key, said := filepath.Join(dir, "key"), filepath.Join(dir, "said")
	put := func(t *testing.T, path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("s\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		from spec.Secret
		// mend makes the secret readable again.
		mend func(t *testing.T)
		// rests: the secret is known to be readable only after a try, which has to wait.
		rests bool
	}{
		"variable": {from: spec.Secret{Env: variable}, mend: func(t *testing.T) { t.Setenv(variable, "s") }},
		"file":     {from: spec.Secret{File: key}, mend: func(t *testing.T) { put(t, key) }},
		"command":  {from: spec.Secret{Exec: "cat " + said}, mend: func(t *testing.T) { put(t, said) }, rests: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			d, needed := w.takenOver(t, c.from)
			if !needed() {
				t.Fatal("a run that nobody has tried is not taken over")
			}
			d.cannotRead(t)
			if needed() {
				t.Error("it is tried again at once")
			}
			past := time.Now().Add(-2 * retrySecrets)
			if err := os.Chtimes(unreadPath(d.c.Store, d.run.ID), past, past); err != nil {
				t.Fatal(err)
			}
			if needed() != c.rests {
				t.Errorf("after a while it is tried: %t", !c.rests)
			}
			if err := os.Chtimes(unreadPath(d.c.Store, d.run.ID), time.Time{}, time.Now()); err != nil {
				t.Fatal(err)
			}
			c.mend(t)
			if needed() == c.rests {
				t.Errorf("once they can be read, it continues at once: %t", c.rests)
			}
			if _, err := d.secrets(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !needed() {
				t.Error("a run whose secrets were read is not taken over")
			}
		})
	}
}

// TestARunThatIsOverNeedsNoSecrets: to end it, and to give back what it holds, takes none.
func TestARunThatIsOverNeedsNoSecrets(t *testing.T) {
	for name, end := range map[string]func(w *world, run state.Run) error{
		"to be stopped": func(w *world, run state.Run) error { return w.Store.Requests().AskStop(t.Context(), run.ID) },
		"over": func(w *world, run state.Run) error {
			run.State = state.Failed
			lease := &core.Handle{Driver: "fake", Owner: core.Owner{Run: run.ID, Attempt: 1}}
			return errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: 1, Site: "a", Lease: lease}, true))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			d, needed := w.takenOver(t, spec.Secret{Env: "BEE_TEST_SECRET"})
			d.cannotRead(t)
			if err := end(w, d.run); err != nil {
				t.Fatal(err)
			}
			if !needed() {
				t.Error("no controller looks after it")
			}
		})
	}
}

// TestCredentialsAreNotAskedForByEachCommand: a program or a server may give them, and may hang.
func TestCredentialsAreNotAskedForByEachCommand(t *testing.T) {
	for _, from := range []string{spec.CredentialsSend, spec.CredentialsRelay} {
		t.Run(from, func(t *testing.T) { askedForOnce(t, from) })
	}
}

func askedForOnce(t *testing.T, from string) {
	t.Helper()
	w := newWorld(t, "a")
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: "s3://bucket/x", Credentials: from}})
	asked := 0
	w.Runner.BucketKeys = func(ctx context.Context, _ string) (core.BucketKeys, error) {
		asked++
		if end, bounded := ctx.Deadline(); !bounded || time.Until(end) > mostKeys {
			t.Error("nothing bounds the wait")
		}
		return core.BucketKeys{}, nil
	}
	name := unreadPath(w.Store, run.ID)
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !w.waitsForSecrets(t.Context(), run.ID) || asked > 0 {
		t.Errorf("just after a try they are asked for %d times", asked)
	}
	past := time.Now().Add(-2 * retrySecrets)
	if err := os.Chtimes(name, past, past); err != nil {
		t.Fatal(err)
	}
	if w.waitsForSecrets(t.Context(), run.ID) || asked != 1 {
		t.Errorf("after a while they are asked for %d times", asked)
	}
}

// takenOver is a run with a secret that another controller has begun with and left, and
// whether a command continues one.
func (w *world) takenOver(t *testing.T, from spec.Secret) (d *drive, needed func() bool) {
	t.Helper()
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Secrets: map[string]spec.Secret{"S": from}})
	sub, err := submission.Of(run)
	if err = errors.Join(err, w.lock.Unlock()); err != nil {
		t.Fatal(err)
	}
	r := control(w.Runner, run, sub)
	r.continued = true
	return &drive{controlled: r}, func() bool {
		t.Helper()
		ids, err := w.Garbage().Orphans(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(ids, run.ID)
	}
}

func (d *drive) cannotRead(t *testing.T) {
	t.Helper()
	if _, err := d.secrets(t.Context()); !core.IsKind(err, core.Transient) {
		t.Fatalf("got %v", err)
	}
}
