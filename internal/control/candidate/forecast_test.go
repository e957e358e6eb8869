package candidate

import (
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// unasked is a site that must not be asked anything.
type unasked struct{ driver.Provider }

func (unasked) Info() driver.Info { return driver.Info{Name: "ssh"} }

// TestASiteThatIsTooSmallIsNotAsked: its forecast comes from the sites file.
func TestASiteThatIsTooSmallIsNotAsked(t *testing.T) {
	site := spec.Site{Name: "rack", Provider: "ssh", Hosts: spec.Hosts{Patterns: []string{"n1"}}}
	f := (&Site{Spec: site, Provider: unasked{}, Job: &spec.Job{Nodes: 2}}).Forecast(t.Context(), core.Owner{})
	if !core.IsKind(f.Err, core.Unsupported) || f.Info.Name != "ssh" {
		t.Errorf("the forecast is %+v", f)
	}
}
