package head

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// TestFullDisksOfGuests: the job sees errors of a disk only, and its user has to know why.
func TestFullDisksOfGuests(t *testing.T) {
	if got := fullDisks([]core.NodeReport{{Host: "a"}, {Host: "b"}}); got != "" {
		t.Errorf("without a reason: %s", got)
	}
	if got := fullDisks([]core.NodeReport{{Host: "a", Full: true}, {Host: "b"}, {Host: "c", Full: true}}); !strings.Contains(got, " a, c,") || !strings.Contains(got, "`scratch:`") {
		t.Errorf("two of three: %s", got)
	}
}

// TestCheckpointsOfABurstBuffer stay while the run may continue from them.
func TestCheckpointsOfABurstBuffer(t *testing.T) {
	exit := func(code int) *plan.Result { return &plan.Result{Exit: &core.Exit{Code: code}} }
	stopped := &plan.Result{Kind: core.Stopped.String()}
	for name, c := range map[string]struct {
		result *plan.Result
		err    error
		again  bool
		want   BurstEnd
	}{
		"it has succeeded":            {result: exit(0), want: BurstEnd{Succeeded: true}},
		"it has failed":               {result: exit(1), want: BurstEnd{Over: true}},
		"it is tried again":           {result: exit(1), again: true},
		"its user has stopped it":     {result: stopped, err: errors.New("stopped"), want: BurstEnd{Over: true}},
		"its node was asked to end":   {result: stopped, err: errNodeEnds},
		"its slot was over before it": {result: &plan.Result{Kind: core.Lost.String()}, err: errSlotEnds},
	} {
		h := &Head{plan: &plan.Plan{Burst: &plan.Burst{Again: c.again}}, saver: &saver{}}
		if got := h.burstEnd(c.result, c.err); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
