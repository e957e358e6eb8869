package cli

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

func TestPlacesOfNoRunningJob(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "md", State: state.Failed})
	for line, kind := range map[string]core.Kind{
		"cp a b": core.Invalid, "cp md:a md:b": core.Invalid, "cp md:a .": core.NotFound, "cp nosuch:a .": core.NotFound,
		"forward md 80": core.NotFound, "forward md 0": core.Invalid, "forward md 80:90:100": core.Invalid, "forward md http": core.Invalid, "forward md 70000": core.Invalid,
		"stats nosuch": core.NotFound,
	} {
		if err := d.bee(strings.Fields(line)...); !core.IsKind(err, kind) || core.Remedy(err) == "" {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := d.bee("stats", "--no-stream", "--json"); err != nil || d.out.String() != "[]\n" {
		t.Errorf("stats of nothing: %v, %q", err, d.out.String())
	}
}

func TestCopiesAreCompleted(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
	if err := d.bee("__complete", "cp", ""); err != nil || !strings.HasPrefix(d.out.String(), "pi:\trunning") {
		t.Errorf("%v: %q", err, d.out.String())
	}
	if err := d.bee("__complete", "cp", "./"); err != nil || !strings.HasPrefix(d.out.String(), ":0") {
		t.Errorf("a file: %v: %q", err, d.out.String())
	}
}
