package inputs

import (
	"testing"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// onMachine is a lease whose files are on a machine; "": this one.
type onMachine struct {
	driver.Lease
	machine string
	keeps   bool // files outlive its hosts
}

type (
	direct struct {
		driver.DirectTransfer
		machine string
	}
	reuse struct{ driver.VolumeReuse }
)

func (d direct) Machine() string { return d.machine }

func (l onMachine) DirectTransfer() driver.DirectTransfer {
	if l.machine == "" {
		return nil
	}
	return direct{machine: l.machine}
}

func (l onMachine) VolumeReuse() driver.VolumeReuse {
	if !l.keeps {
		return nil
	}
	return reuse{}
}

// TestWhatStaysAway from this machine: inputs on the machine that wants them, of any size, and of
// others those for which a direct transfer is worth its connection, and that have their place to
// themselves.
func TestWhatStaysAway(t *testing.T) {
	const large = directFrom
	own, alone := spec.Input{Earlier: spec.RunPath{Run: "r", Path: "p"}, To: "/work/in"}, []spec.Input{{From: "x", To: "/work/other"}}
	for name, c := range map[string]struct {
		from, to         string // sites
		fromHost, toHost string
		bytes            int64
		others           []spec.Input
		keeps, stays     bool
	}{
		"this machine":                  {"a", "b", "", "", 1, alone, true, true},
		"one host":                      {"a", "b", "h", "h", 1, []spec.Input{{From: "x", To: "/work"}}, true, true},
		"one host, whose files go":      {"a", "b", "h", "h", 1, alone, false, false},
		"two hosts of a site":           {"a", "a", "h", "i", 1, alone, true, true},
		"another site, small":           {"a", "b", "h", "i", large - 1, alone, true, false},
		"another site, large":           {"a", "b", "h", "i", large, alone, true, true},
		"large, around another input":   {"a", "b", "h", "i", large, []spec.Input{{From: "x", To: "/work/in/x"}}, true, false},
		"large, below another input":    {"a", "b", "h", "i", large, []spec.Input{{From: "x", To: "/work/"}}, true, false},
		"large, the same twice":         {"a", "b", "h", "i", large, []spec.Input{own}, true, false},
		"from this machine to a host":   {"a", "b", "", "i", large, alone, true, false},
		"from a host to this machine":   {"a", "b", "h", "", large, alone, true, false},
		"large, beside one of its name": {"a", "b", "h", "i", large, []spec.Input{{From: "x", To: "/work/input"}}, true, true},
	} {
		s := &Stager{Site: &transfer.Site{Name: c.to, Lease: onMachine{machine: c.toHost, keeps: c.keeps}}}
		e := &Earlier{Input: own, From: &transfer.Site{Name: c.from, Lease: onMachine{machine: c.fromHost, keeps: true}}, What: driver.Lent{Bytes: c.bytes}}
		job := &spec.Job{Inputs: append([]spec.Input{own}, c.others...)}
		if got := s.StaysAway(job, e); got != c.stays {
			t.Errorf("%s: it stays away is %v", name, got)
		}
	}
}
