package submission

import (
	"encoding/json"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestRefreshSites: a limit of cost that is set later counts, by the price that is set with it.
func TestRefreshSites(t *testing.T) {
	old := &Submission{Version: Version, SitesFile: "sites.yaml", Sites: []spec.Site{{Name: "a", Provider: "local"}, {Name: "b", Provider: "local", Price: spec.Price{Amount: 1}, MaxCost: 5}, {Name: "c", Provider: "aws", AWS: &spec.AWS{AskPrice: true}}}}
	raw, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	run, err := RefreshSites(state.Run{Submission: raw}, func(string) (spec.SitesFile, error) {
		return spec.SitesFile{Sites: []spec.Site{{Name: "a", Provider: "local", Price: spec.Price{Amount: 3}, MaxCost: 6}, {Name: "b", Provider: "ssh", Price: spec.Price{Amount: 2}, MaxCost: 10}, {Name: "c", Provider: "aws", Price: spec.Price{Amount: 4}, AWS: &spec.AWS{}}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Of(run)
	if err != nil {
		t.Fatal(err)
	}
	if a := got.Sites[0]; a.Price.Amount != 3 || a.MaxCost != 6 {
		t.Errorf("a host costs %v, and a run %v at most", a.Price, a.MaxCost)
	}
	if b := got.Sites[1]; b.Price.Amount != 1 || b.MaxCost != 5 {
		t.Errorf("the settings of another site were taken: %v, %v", b.Price, b.MaxCost)
	}
	if c := got.Sites[2]; c.Price.Amount != 4 || c.AsksPrice() {
		t.Errorf("a host costs %v, and the cloud is asked: %t", c.Price, c.AsksPrice())
	}
}
