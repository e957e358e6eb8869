package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// aloneSite makes site a one that starts by itself what is left with it, after
// a time, unless it cannot be reached; what is done with its orders is listed.
func aloneSite(w *world, comes time.Duration, reachable func() bool) *[]string {
	begun, done := time.Now(), &[]string{}
	w.sites["a"].ready = func() (driver.Waiting, error) {
		switch {
		case !reachable():
			return driver.Waiting{}, errors.New("no way there") // of any kind: only what the site says counts
		case time.Since(begun) >= comes:
			return driver.Waiting{Ready: true, Since: begun.Add(comes)}, nil
		}
		return driver.Waiting{Reason: "others are before us"}, nil
	}
	w.sites["a"].alone = func(what string, raw []byte) error {
		*done = append(*done, what)
		if what == "commit" {
			return nil
		}
		var o orders
		return json.Unmarshal(raw, &o)
	}
	w.sites["a"].launch = errors.New("a controller launches what the site starts by itself")
	return done
}

func always() bool { return true }

// TestWhatASiteStartsByItself is neither launched nor brought again, whoever
// died in between.
func TestWhatASiteStartsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a")
		done := aloneSite(w, 9*time.Hour, always)
		run := w.submit(t)
		dying, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := w.Drive(dying, run.ID, nil); err == nil {
			t.Fatal("it did not wait")
		}
		time.Sleep(2 * time.Hour) // in virtual time
		run = w.drive(t, run, nil)
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || run.State != state.Succeeded || len(attempts) != 1 || strings.Join(*done, " ") != "entrust commit commit" {
			t.Fatalf("%+v, %+v, %v: %v", run, attempts, err, *done)
		}
		if q := attempts[0].Phases[protocol.PhaseQueue]; q < 9*time.Hour-time.Minute || q > 9*time.Hour {
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
		aloneSite(w, 9*time.Hour, always)
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
		if err := os.WriteFile(protocol.ResultPath(w.sites["a"].dir), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		journal(t, w.sites["a"].dir, protocol.Event{Seq: 1, Phase: protocol.PhaseRun, Begin: true})
		w.sites["a"].head, w.sites["a"].over = nil, true
		stop := make(chan struct{})
		close(stop)
		if run = w.drive(t, run, stop); run.State != state.Succeeded {
			t.Errorf("got %+v", run)
		}
		if text := history(t, w, run.ID); !strings.Contains(text, "with nobody watching") {
			t.Errorf("its history: %s", text)
		}
		attempts, err := w.Store.Attempts(t.Context(), run.ID)
		if err != nil || len(attempts) != 1 {
			t.Fatalf("%+v, %v", attempts, err)
		}
		a := attempts[0]
		if !a.Ended.Equal(ended) || a.Phases[protocol.PhaseLaunch] != 2*time.Hour || a.Phases[protocol.PhaseAway] < 9*time.Hour || a.Phases[protocol.PhaseAway] > 10*time.Hour {
			t.Errorf("its times: %+v", a)
		}
		w.nothingHeld(t)
		w.Store.Close()
	})
}

// TestASiteThatMayStartIsNotPassedOver: not before it can be reached, and is
// known not to have; and it is asked no more often for that.
func TestASiteThatMayStartIsNotPassedOver(t *testing.T) {
	for name, c := range map[string]struct {
		comes time.Duration
		site  string
	}{"it has begun meanwhile": {2 * time.Hour, "a"}, "it has not": {100 * time.Hour, "b"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				begun, looks := time.Now(), 0
				aloneSite(w, c.comes, func() bool {
					looks++
					return time.Since(begun) < 30*time.Minute || time.Since(begun) > 20*time.Hour
				})
				s := Submission{Job: spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}}}
				for _, n := range w.names {
					s.Sites = append(s.Sites, spec.Site{Name: n, Provider: "fake", Wait: time.Hour})
				}
				run, lock, err := w.Submit(t.Context(), s)
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
	w := newWorld(t, "a")
	done := aloneSite(w, 300*time.Millisecond, always)
	w.sites["a"].launch = nil
	t.Setenv("BEE_TEST_SECRET", "s3cr3t")
	run := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Secrets: map[string]spec.Secret{"KEY": {Env: "BEE_TEST_SECRET"}}}), nil)
	if text := history(t, w, run.ID); run.State != state.Succeeded || len(*done) > 0 || !strings.Contains(text, "never written to a disk") {
		t.Errorf("%s %s: %v\n%s", run.State, run.Message, *done, text)
	}
	w.nothingHeld(t)
}
