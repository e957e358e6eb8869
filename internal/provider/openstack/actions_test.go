package openstack

import (
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestEndOf: the first action counts after which a machine has not run, and in whose name it was made.
func TestEndOf(t *testing.T) {
	at := func(second, name, project string) action {
		return action{Action: name, Project: project, Start: "2026-11-29T01:00:" + second + ".000000"}
	}
	created := at("00", "create", "own")
	for name, c := range map[string]struct {
		actions []action
		want    core.HostsEnd
	}{
		"it runs":                        {[]action{created}, ""},
		"powered off":                    {[]action{at("05", "stop", ""), created}, core.HostsPoweredOff},
		"powered off, and deleted then":  {[]action{at("09", "delete", "own"), at("05", "stop", ""), created}, core.HostsPoweredOff},
		"stopped by a call":              {[]action{at("05", "stop", "own"), created}, core.HostsEnded},
		"deleted by a call":              {[]action{at("05", "delete", "own"), created}, core.HostsEnded},
		"deleted by another project":     {[]action{at("05", "delete", "service"), created}, core.HostsReclaimed},
		"shelved by an operator":         {[]action{at("06", "shelveOffload", ""), at("05", "shelve", "admin"), created}, core.HostsReclaimed},
		"stopped, started, stopped":      {[]action{at("09", "stop", ""), at("07", "start", "own"), at("05", "stop", "own"), created}, core.HostsPoweredOff},
		"the oldest first":               {[]action{created, at("05", "stop", ""), at("09", "delete", "own")}, core.HostsPoweredOff},
		"deleted in nobody's name":       {[]action{at("05", "delete", ""), created}, ""},
		"of another's beginning":         {[]action{at("05", "delete", "own")}, ""},
		"its reboot has failed":          {[]action{at("05", "reboot", "own"), created}, ""},
		"no actions, as it is forbidden": {nil, ""},
	} {
		if got := endOf(c.actions); got != c.want {
			t.Errorf("%s: got %q, expected %q", name, got, c.want)
		}
	}
}
