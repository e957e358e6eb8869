package benchcmd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// rented is the provider of a site that bills ten minutes at least.
type rented struct{ driver.Provider }

func (rented) Info() driver.Info {
	return driver.Info{Billing: core.Billing{Least: 10 * time.Minute}}
}

// TestPrices: an environment costs what the hosts of its largest point cost. The sites file is
// read once: a plan has the prices of the sites by which its environments were chosen.
func TestPrices(t *testing.T) {
	s, err := study.Parse("study.yaml", []byte(`study: s
job: {image: docker.io/lab/x, nodes: "${nodes}", run: "true"}
vary: {nodes: [1, 4, 2]}
environments: {plain: {runtime: rootless}, cloud: {site: cloud}}
metrics: {seconds: {builtin: seconds}}
`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := New(workspace.New(nil, nil, ""))
	a.StateDir, a.CacheDir, a.Sites = t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "sites.yaml")
	if err := os.WriteFile(a.Sites, []byte("sites: [{name: lab, provider: ssh, hosts: [h0, h1, h2, h3]}, {name: cloud, provider: ssh, hosts: [c0, c1, c2, c3], price: {amount: 1.5, currency: EUR}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	session := &workspace.Session{Controller: &control.Controller{}}
	session.Provider = func(spec.Site) (driver.Provider, error) { return rented{}, nil }
	b := &bench{app: a, taker: &measure.Taker{Study: s, Site: "lab"}, hosts: &hosts{s: session}}
	p := planOf(s)
	for _, n := range []string{"1", "4", "2"} {
		p.Points = append(p.Points, record.Point{ID: "nodes=" + n, Values: map[string]string{"nodes": n}, Environments: s.EnvironmentNames})
	}
	for _, e := range s.EnvironmentNames {
		if reason, _, err := b.unfit(p.Points, e); reason != "" || err != nil {
			t.Fatalf("%s: %q, %v", e, reason, err)
		}
	}
	if err := os.Remove(a.Sites); err != nil {
		t.Fatal(err)
	}
	if err := b.price(p); err != nil {
		t.Fatal(err)
	}
	if e := p.Environments[0]; e.Site != "" || e.HourPrice != 0 {
		t.Errorf("a site without a price costs %+v", e)
	}
	if e := p.Environments[1]; e.Site != "cloud" || e.HourPrice != 6 || e.Currency != "EUR" || e.LeastBilledSeconds != 600 {
		t.Errorf("four hosts of 1.5 EUR cost %+v", e)
	}
}
