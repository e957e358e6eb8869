package runner

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// TestWhatASiteStartsByItself is neither launched nor staged again, whoever
// died in between.
func TestWhatASiteStartsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		done := controltest.StartsAlone(w.sites["a"], 9*time.Hour, controltest.Always)
		run := w.submit(t)
		dying, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Drive(dying, run.ID, nil); err == nil {
			t.Fatal("it did not wait")
		}
		time.Sleep(2 * time.Hour) // in virtual time
		run = w.drive(t, run, nil)
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || run.State != state.Succeeded || len(attempts) != 1 || strings.Join(*done, " ") != "stage enable enable" {
			t.Fatalf("%+v, %+v, %v: %v", run, attempts, err, *done)
		}
		if q := attempts[0].Phases[core.PhaseQueue]; q < 9*time.Hour-time.Minute || q > 9*time.Hour {
			t.Errorf("it was in the queue for %v", q)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestAStopFindsWhatIsDone: what the site has done meanwhile counts, also where
// its user wanted it stopped.
func TestAStopFindsWhatIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		controltest.StartsAlone(w.sites["a"], 9*time.Hour, controltest.Always)
		run := w.submit(t)
		dying, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Drive(dying, run.ID, nil); err == nil {
			t.Fatal("it did not wait")
		}
		time.Sleep(20 * time.Hour) // in virtual time
		ended := time.Now().Add(-9 * time.Hour)
		raw, err := json.Marshal(protocol.Result{Exit: &core.Exit{}, Outputs: []protocol.OutputMatch{}, Started: ended.Add(-time.Hour), Ended: ended})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(protocol.ResultPath(w.sites["a"].Dir), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		journal(t, w.sites["a"].Dir, protocol.Event{Seq: 1, Phase: core.PhaseRun, Begin: true})
		w.sites["a"].Head, w.sites["a"].Over = nil, true
		stop := make(chan struct{})
		close(stop)
		if run = w.drive(t, run, stop); run.State != state.Succeeded {
			t.Errorf("got %+v", run)
		}
		if !happened(t, w, run.ID, event.RanUnattended{Site: "a"}) {
			t.Errorf("its history: %s", history(t, w, run.ID))
		}
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || len(attempts) != 1 {
			t.Fatalf("%+v, %v", attempts, err)
		}
		a := attempts[0]
		if !a.Ended.Equal(ended) || a.Phases[core.PhaseLaunch] != 2*time.Hour || a.Phases[core.PhaseUnattended] < 9*time.Hour || a.Phases[core.PhaseUnattended] > 10*time.Hour {
			t.Errorf("its times: %+v", a)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestASiteThatMayStartIsNotPassedOver: the run continues elsewhere only once its site has
// answered that it did not start it. The site is not asked more often for that.
func TestASiteThatMayStartIsNotPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		comes time.Duration
		site  string
	}{"it has begun meanwhile": {2 * time.Hour, "a"}, "it has not": {100 * time.Hour, "b"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				begun, looks := time.Now(), 0
				controltest.StartsAlone(w.sites["a"], c.comes, func() bool {
					looks++
					return time.Since(begun) < 30*time.Minute || time.Since(begun) > 20*time.Hour
				})
				s := submission.Submission{Job: spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}}}
				for _, n := range w.names {
					s.Sites = append(s.Sites, spec.Site{Name: n, Provider: "fake", Wait: time.Hour})
				}
				run, lock, err := submission.Submit(t.Context(), w.Store, s)
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Unlock()
				run = w.drive(t, run, nil)
				attempts, err := w.Store.Attempts(t.Context(), run.ID)
				if err != nil || run.State != state.Succeeded || attempts[len(attempts)-1].Site != c.site || time.Since(begun) < 20*time.Hour {
					t.Errorf("after %v: %+v, %+v, %v", time.Since(begun), run, attempts, err)
				}
				if most := int(20 * time.Hour / laterLook); looks > most {
					t.Errorf("it was asked %d times, want %d at most", looks, most)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestSecretsAreNotLeftWithASite: a controller launches such a run by itself.
func TestSecretsAreNotLeftWithASite(t *testing.T) {
	t.Setenv("BEE_TEST_SECRET", "s3cr3t")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		done := controltest.StartsAlone(w.sites["a"], time.Hour, controltest.Always)
		w.sites["a"].LaunchError = nil
		run := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/w"}, Secrets: map[string]spec.Secret{"KEY": {Env: "BEE_TEST_SECRET"}}}), nil)
		if run.State != state.Succeeded || strings.Join(*done, " ") != "attend" || !happened(t, w, run.ID, event.Attendance{Site: "a"}) {
			t.Errorf("%s %s: %v\n%s", run.State, run.Message, *done, history(t, w, run.ID))
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestKeysOfABucketAreSentToTheHead by a controller: a site has no launch spec with them, and the plan has none either.
func TestKeysOfABucketAreSentToTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		done := controltest.StartsAlone(w.sites["a"], time.Hour, controltest.Always)
		w.sites["a"].LaunchError = nil
		w.BucketKeys = func(_ context.Context, remote string) (core.BucketKeys, error) {
			return core.BucketKeys{ID: remote, Secret: "s3cr3t"}, nil
		}
		run := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/w", Remote: "s3://bucket/run7", Credentials: spec.CredentialsSend}}), nil)
		if run.State != state.Succeeded || strings.Join(*done, " ") != "attend" {
			t.Errorf("%s %s: %v\n%s", run.State, run.Message, *done, history(t, w, run.ID))
		}
		raw := w.sites["a"].Launched.Config
		var c protocol.Config
		if err := json.Unmarshal(raw, &c); err != nil || c.BucketKeys == nil || c.BucketKeys.ID != "s3://bucket/run7" || c.BucketKeys.Secret != "s3cr3t" || strings.Count(string(raw), "s3cr3t") != 1 {
			t.Errorf("the head has got %+v, %v", c, err)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestHostsThatNobodyCameFor, as the one machine with the run's secrets was asleep when
// they were there, are asked for again, and the run does not fail for it; but not for ever.
func TestHostsThatNobodyCameFor(t *testing.T) {
	for name, c := range map[string]struct {
		missed int // so often
		state  state.RunState
		dies   bool // the controller, before the first time
	}{"once": {1, state.Succeeded, false}, "as it was dead": {1, state.Succeeded, true}, "always": {1000, state.Failed, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a")
				site, asked, told, granted := w.sites["a"], 0, []string{}, time.Time{}
				site.OnAcquire = func() error {
					asked++
					granted = time.Now().Add(8 * time.Hour)
					return nil
				}
				site.Ready = func() (driver.Waiting, error) {
					switch {
					case time.Now().Before(granted):
						return driver.Waiting{Reason: "others are before us"}, nil
					case asked <= c.missed:
						return driver.Waiting{Missed: true}, &core.Error{Kind: core.Lost, Err: errors.New("no-one-came")}
					}
					return driver.Waiting{Ready: true}, nil
				}
				site.Alone = func(what string, _ []byte) error {
					told = append(told, what)
					return nil
				}
				t.Setenv("BEE_TEST_SECRET", "s")
				run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Secrets: map[string]spec.Secret{"S": {Env: "BEE_TEST_SECRET"}}})
				if c.dies {
					dying, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					if _, err := w.Drive(dying, run.ID, nil); err == nil {
						t.Fatal("it did not wait")
					}
					time.Sleep(24 * time.Hour) // in virtual time
				}
				run = w.drive(t, run, nil)
				if run.State != c.state || asked != min(c.missed+1, missedInARow) || slices.ContainsFunc(told, func(what string) bool { return what != "attend" }) {
					t.Errorf("asked for %d times, told %q: %+v", asked, told, run)
				}
				attempts, err := w.Store.Attempts(t.Context(), run.ID)
				if err != nil {
					t.Fatal(err)
				}
				if q := attempts[0].Phases[core.PhaseQueue]; c.dies && (q < 25*time.Hour-time.Minute || q > 25*time.Hour+time.Minute) {
					t.Errorf("the first attempt is told to have waited for %s, it did for 25 hours", q)
				}
				if text := history(t, w, run.ID); !happened(t, w, run.ID, event.Attendance{Site: "a"}) || !strings.Contains(text, "no-one-came") {
					t.Errorf("its history: %s", text)
				}
				w.nothingHeld(t)
				w.Store.Close()
			})
		})
	}
}

// TestSecretsThatOnlyAnotherCanRead, as `bee supervise` was run in a shell without their
// variable, end no run: it waits for who can, and asks for no hosts meanwhile.
func TestSecretsThatOnlyAnotherCanRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const variable = "BEE_TEST_SECRET"
		w := newWorld(t, "a")
		site, asked, granted := w.sites["a"], 0, time.Now().Add(9*time.Hour)
		site.OnAcquire = func() error { asked++; return nil }
		site.Ready = func() (driver.Waiting, error) {
			if asked == 1 && time.Now().After(granted.Add(time.Hour)) {
				return driver.Waiting{Missed: true}, &core.Error{Kind: core.Lost, Err: errors.New("no-one-came")}
			}
			return driver.Waiting{Ready: time.Now().After(granted), Reason: "others are before us"}, nil
		}
		t.Setenv(variable, "s")
		run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Secrets: map[string]spec.Secret{"S": {Env: variable}}})
		dying, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Drive(dying, run.ID, nil); err == nil {
			t.Fatal("it did not wait")
		}
		if err := os.Unsetenv(variable); err != nil {
			t.Fatal(err)
		}
		for range 3 { // in the queue, with hosts that are released then, and before others are asked for
			got, err := w.Drive(t.Context(), run.ID, nil)
			if err == nil || got.State.Final() || asked != 1 || !strings.Contains(err.Error(), variable) || !strings.Contains(core.Remedy(err), "bee supervise") {
				t.Fatalf("without the variable: %+v, %v, asked for %d times", got, err, asked)
			}
			time.Sleep(time.Hour) // in virtual time
		}
		t.Setenv(variable, "s")
		if run = w.drive(t, run, nil); run.State != state.Succeeded || asked != 2 {
			t.Errorf("with it: %+v, asked for %d times", run, asked)
		}
		if text := history(t, w, run.ID); strings.Count(text, "secrets_unreadable ") != 2 { // in the queue and after it, however often it was tried
			t.Errorf("its history: %s", text)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}
