package control

import (
	"errors"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestASiteThatAnswersIsNotLost, whatever the user declares. For one that does not answer,
// the answer names what the run loses.
func TestASiteThatAnswersIsNotLost(t *testing.T) {
	w := newWorld(t, "a", "b")
	run := w.submitJob(t, controltest.Movable())
	var all testkit.ErrorList
	refused := func(when string, sites ...spec.Site) {
		t.Helper()
		_, err := w.HoldLost(t.Context(), run, sites)
		if !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%s: got %v, remedy %q", when, err, core.Remedy(err))
		}
		all.Add(when, err)
	}
	refused("it waits for no site")
	owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
	w.sites["a"].Held[owner] = true
	at := state.Attempt{Run: run.ID, N: 1, Site: "a", Provider: "fake", State: state.Computing, Lease: &core.Handle{Driver: "fake", Version: 1, Owner: owner}, Record: state.Record{Hosts: []core.Host{{Name: "f0"}}}}
	if err := w.Store.PutAttempt(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	refused("its site answers")
	w.sites["a"].Silence(&core.Error{Kind: core.Transient, Err: errors.New("no way there")})
	refused("it is to continue on the site that is lost", spec.Site{Name: "a"})
	testkit.Golden(t, "site-lost", strings.ReplaceAll(all.String(), run.ID, "RUN"))
	text, err := w.HoldLost(t.Context(), run, []spec.Site{{Name: "b"}})
	if err != nil || !strings.Contains(text, "f0") {
		t.Errorf("what is lost is %q, %v", text, err)
	}
	if r, err := w.Store.Requests().Open(t.Context(), run.ID, state.RequestSiteLost); err != nil || r == nil || r.Attempt != 1 || len(r.Sites) == 0 {
		t.Errorf("the request is %+v, %v", r, err)
	}
}
