package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// TestAPlanSaysWhyAndWhatItDependsOn: why a site would start a run late, that its secrets
// need a controller then, and that its store cannot be used.
func TestAPlanSaysWhyAndWhatItDependsOn(t *testing.T) {
	w := newWorld(t, "a", "b")
	controltest.StartsAlone(w.sites["a"], time.Hour, controltest.Always)
	w.sites["a"].Starts, w.sites["a"].Late = time.Now().Add(time.Hour), "maintenance"
	sub := submission.Submission{Job: spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}}, Sites: []spec.Site{{Name: "a", Provider: "fake"}, {Name: "b", Provider: "fake"}}}
	for _, secrets := range []map[string]spec.Secret{nil, {"S": {Env: "S"}}} {
		sub.Job.Secrets = secrets
		list, sites := w.Prospects(t.Context(), sub), w.Attended(&sub)
		if list[0].StartReason != "maintenance" || list[0].Attended != (secrets != nil) || list[1].StartReason != "" || list[1].Attended {
			t.Errorf("with secrets %v: %+v", secrets, list)
		}
		if (len(sites) == 1 && sites[0].Name == "a") != (secrets != nil) {
			t.Errorf("with secrets %v its controller has to be there for %v", secrets, sites)
		}
	}
	dir := t.TempDir()
	w.OpenStore = func(store string) (driver.Store, error) { return dirstore.Store(store), nil }
	for store, want := range map[string]string{"": "", dir: "", filepath.Join(dir, "not-mounted"): filepath.Join(dir, "not-mounted")} {
		sub.Job.Store = store
		err := w.TryStore(t.Context(), sub)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || core.Remedy(err) == "") {
			t.Errorf("store %q: %v", store, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the store: %v, %v", left, err)
	}
}

// TestOrderOfProspects is that in which a run would try the sites, with what each would cost.
func TestOrderOfProspects(t *testing.T) {
	now := time.Now()
	w := newWorld(t, "a", "b", "c")
	prices := map[string]float64{"a": 2, "b": 3, "c": 0.5}
	for _, s := range w.sites {
		s.HostCount = 2
	}
	w.sites["a"].Starts, w.sites["b"].Starts = now.Add(2*time.Hour), now.Add(time.Hour)
	sub := submission.Submission{Job: spec.Job{Name: "j", Nodes: 2, Volume: spec.Volume{Path: "/work"}}}
	for _, n := range w.names {
		sub.Sites = append(sub.Sites, spec.Site{Name: n, Provider: "fake", Price: spec.Price{Amount: prices[n]}, Slot: time.Hour})
	}
	for order, want := range map[string]string{"": "a b c", spec.OrderCheapest: "c a b", spec.OrderSoonest: "b a c"} {
		sub.Job.Order = order
		var got []string
		for _, p := range w.Prospects(t.Context(), sub) {
			got = append(got, p.Site)
			if p.CostPerHour != 2*prices[p.Site] || p.SlotSeconds != 3600 || p.ComputeSeconds <= 0 || p.ComputeSeconds >= 3600 {
				t.Errorf("%+v", p)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", order, got, want)
		}
	}
}

// TestASlotWithoutTimeToComputeIsNoProspect: it is over before the job could begin.
func TestASlotWithoutTimeToComputeIsNoProspect(t *testing.T) {
	w := newWorld(t, "a")
	for name, job := range map[string]spec.Job{
		"no checkpoint": {Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}},
		"a long grace":  {Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Checkpoint: &spec.Checkpoint{Grace: 10 * time.Second}},
	} {
		sub := submission.Submission{Job: job, Sites: []spec.Site{{Name: "a", Provider: "fake", Slot: 20 * time.Second}}}
		if p := w.Prospects(t.Context(), sub)[0]; p.Usable || p.Reason == "" || p.Remedy == "" {
			t.Errorf("%s: the prospect is %+v", name, p)
		}
	}
}
