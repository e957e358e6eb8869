package nodecmd

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestPortsOfTwoMachines: one node of each machine is asked, and each container is shown.
func TestPortsOfTwoMachines(t *testing.T) {
	machines := [][]int{{0, 2}, {1, 3, 4}}
	var asked []int
	ports, err := gatherPorts(5, func(rank int) ([]core.VerbsPort, error) {
		asked = append(asked, rank)
		var ports []core.VerbsPort
		for _, of := range machines[rank] {
			ports = append(ports, core.VerbsPort{Rank: of})
		}
		return ports, nil
	})
	if err != nil || !slices.Equal(asked, []int{0, 1}) || len(ports) != 5 {
		t.Fatalf("nodes %v were asked: %+v, %v", asked, ports, err)
	}
	ports[0].Processes, ports[0].MemoryBytes = 2, 64<<20
	ports[0].Objects.QueuePairs, ports[0].States = 3, core.VerbsStates{RTS: 2, Error: 1}
	ports[0].Operations = core.VerbsOperations{Sends: 1000, Receives: 900, Writes: 3, Reads: 2, Atomics: 1, Staged: 7}
	ports[0].Bytes = core.VerbsBytes{Ring: 4_096_000, Direct: 65536, Staged: 0}
	ports[0].Errors, ports[0].Refusals = 4, core.VerbsRefusals{Limits: 1, Keys: 2, Others: 3}
	ports[4].Operations.Staged, ports[4].Bytes.Staged, ports[4].Bytes.Forwarded = 10, 2_000_000_000, 3_000_000
	var out bytes.Buffer
	if err := writePorts(&out, ports); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "rdma-stats", out.String())
}

// TestPortsOfOthers: a node reports on the containers of its machine alone.
func TestPortsOfOthers(t *testing.T) {
	broken := errors.New("no connection")
	for _, tc := range []struct {
		name    string
		reports map[int][]int // by node that is asked
		want    error
	}{
		{"a node above the last", map[int][]int{0: {0, 2}}, &core.Error{Kind: core.Invalid}},
		{"a node of another machine", map[int][]int{0: {0}, 1: {0, 1}}, &core.Error{Kind: core.Invalid}},
		{"a node that is not reached", map[int][]int{0: {0}}, broken},
	} {
		_, err := gatherPorts(2, func(rank int) (ports []core.VerbsPort, err error) {
			ranks, reached := tc.reports[rank]
			if !reached {
				return nil, broken
			}
			for _, r := range ranks {
				ports = append(ports, core.VerbsPort{Rank: r})
			}
			return ports, nil
		})
		if err == nil || core.KindOf(err) != core.KindOf(tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
