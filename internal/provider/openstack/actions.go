package openstack

import (
	"context"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// computeDeleted is Nova with the version from which on it knows the actions of machines that are deleted.
const computeDeleted = compute + " 2.21"

// action is a change of a machine, in an answer.
type action struct {
	Action string
	// Project is that in whose name it was made; "": Nova itself made it.
	Project string `json:"project_id"`
	Start   string `json:"start_time"`
}

// made is the first action of each machine.
const made = "create"

// stops reports whether a machine does not run after an action.
func (a action) stops() bool {
	return slices.Contains([]string{"stop", "delete", "pause", "suspend", "shelve", "shelveOffload", "rescue"}, a.Action)
}

// endOf returns why a machine does not run any more, by its actions: by the first one after which it has not run. Nova
// stops a machine that it finds powered off, in the name of no project. Blazar deletes machines in the name of its own.
func endOf(actions []action) core.HostsEnd {
	actions = slices.Clone(actions)
	slices.SortStableFunc(actions, func(x, y action) int { return strings.Compare(y.Start, x.Start) }) // the newest first
	running := slices.IndexFunc(actions, func(a action) bool { return !a.stops() })
	if running < 0 {
		running = len(actions)
	}
	if running == 0 {
		return ""
	}
	first, own := actions[running-1], slices.IndexFunc(actions, func(a action) bool { return a.Action == made })
	switch {
	case first.Project == "" && first.Action == "stop":
		return core.HostsPoweredOff
	case first.Project == "" || own < 0:
		return ""
	case first.Project == actions[own].Project:
		return core.HostsEnded
	}
	return core.HostsReclaimed
}

// WhyEnded implements cloud.API. Clouds that forbid it do not show why.
func (c *client) WhyEnded(ctx context.Context, id string) (core.HostsEnd, error) {
	if err := checkID("find the actions of machine", id); err != nil {
		return "", err
	}
	var answer struct {
		Actions []action `json:"instanceActions"`
	}
	err := c.call(ctx, computeDeleted, get, "servers/"+id+"/os-instance-actions", nil, &answer)
	return endOf(answer.Actions), err
}
