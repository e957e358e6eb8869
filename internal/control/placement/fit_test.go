package placement

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

func TestTooFewHostsAreToldWithHowManyItTakes(t *testing.T) {
	err := CheckFacts("lab", driver.Facts{Usable: true, Hosts: 3}, 9)
	if !core.IsKind(err, core.Unsupported) || !strings.Contains(err.Error(), "wants 9 hosts, the site has 3") || !strings.Contains(core.Remedy(err), "hosts: 9}") {
		t.Errorf("got %v; %s", err, core.Remedy(err))
	}
}
