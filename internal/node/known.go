package node

import (
	"sync"

	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
)

// known is what a node knows of its attempt: nothing before the head has begun it.
type known struct {
	mu      sync.Mutex
	plan    plan.Plan
	members []peercall.Member
	network peercall.Network
}

// learn records what the head has settled.
func (k *known) learn(p plan.Plan, members []peercall.Member, network peercall.Network) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.plan, k.members, k.network = p, members, network
}

// all returns the whole.
func (k *known) all() (plan.Plan, []peercall.Member, peercall.Network) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.plan, k.members, k.network
}

// job returns the plan.
func (k *known) job() plan.Plan {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.plan
}

// member returns the node of a rank; a zero one where that is not known.
func (k *known) member(rank int) peercall.Member {
	k.mu.Lock()
	defer k.mu.Unlock()
	if rank < 0 || rank >= len(k.members) {
		return peercall.Member{}
	}
	return k.members[rank]
}

// setVolume records how guests have the volume, as the head has chosen.
func (k *known) setVolume(kind string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.plan.VM != nil {
		k.plan.VM.Volume = kind
	}
}
