package node

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
)

// statistics returns those of the containers whose broker this node runs.
func (v *verbs) statistics(ctx context.Context) (nodecall.Verbs, error) {
	v.mu.Lock()
	guest := v.guest
	v.mu.Unlock()
	if guest != nil {
		return guest.statistics(ctx)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ready {
		return nodecall.Verbs{}, &core.Error{
			Kind: core.NotFound, Op: "read statistics of", Object: "bee_0", Err: errors.New("the run has no such device (yet)"),
			Remedy: "It is there where the Beefile has `rdma: bee`, once the containers are about to start.",
		}
	}
	s := nodecall.Verbs{Ports: []core.VerbsPort{}}
	for _, rank := range slices.Sorted(maps.Keys(v.ports)) {
		s.Ports = append(s.Ports, v.ports[rank].Statistics().View(rank))
	}
	return s, nil
}
