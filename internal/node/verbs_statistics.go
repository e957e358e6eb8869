package node

import (
	"errors"
	"maps"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
)

// statistics returns those of the containers whose broker this node runs.
func (v *verbs) statistics() (nodecall.Verbs, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.ready {
		return nodecall.Verbs{}, &core.Error{
			Kind: core.NotFound, Op: "read statistics of", Object: "bee_0", Err: errors.New("the run has no such device (yet)"),
			Remedy: "It is there where the Beefile has `rdma: bee`, once the containers are about to start.",
		}
	}
	s := nodecall.Verbs{Ports: []nodecall.VerbsPort{}}
	for _, rank := range slices.Sorted(maps.Keys(v.ports)) {
		s.Ports = append(s.Ports, portView(rank, v.ports[rank].Statistics()))
	}
	return s, nil
}

// portView returns the statistics of a port as calls have them.
func portView(rank int, s server.Statistics) nodecall.VerbsPort {
	object := func(kind uint32) int64 { return int64(s.Objects[kind]) }
	state := func(of broker.State) int64 { return int64(s.States[of]) }
	count := func(place int) int64 { return bounded(s.Counters[place]) }
	return nodecall.VerbsPort{
		Rank: rank, Processes: int64(s.Processes), MemoryBytes: s.Memory, Errors: count(message.CountErrors), Wakes: count(message.CountWakes),
		Objects: nodecall.VerbsObjects{
			ProtectionDomains: object(message.KindPD), CompletionQueues: object(message.KindCQ), Channels: object(message.KindChannel),
			SharedReceiveQueues: object(message.KindSRQ), AddressHandles: object(message.KindAH), QueuePairs: object(message.KindQP),
			MemoryRegions: object(message.KindMR), SharedBlocks: object(message.KindRegion),
			EventChannels: object(message.KindCMChannel), ConnectionIDs: object(message.KindCMID),
		},
		States: nodecall.VerbsStates{
			Reset: state(broker.Reset), Init: state(broker.Init), RTR: state(broker.ReadyToReceive), RTS: state(broker.ReadyToSend),
			SQD: state(broker.SendDrained), SQE: state(broker.SendError), Error: state(broker.Failed),
		},
		Operations: nodecall.VerbsOperations{
			Sends: count(message.CountSends), Receives: count(message.CountReceives), Writes: count(message.CountWrites),
			Reads: count(message.CountReads), Atomics: count(message.CountAtomics), Staged: count(message.CountStaged),
		},
		Bytes:    nodecall.VerbsBytes{Ring: count(message.CountRingBytes), Direct: count(message.CountDirectBytes), Staged: count(message.CountStagedBytes), Forwarded: bounded(s.Forwarded)},
		Refusals: nodecall.VerbsRefusals{Limits: bounded(s.Refusals.Limits), Keys: bounded(s.Refusals.Keys), Others: bounded(s.Refusals.Others)},
	}
}

// bounded is a count of programs, which may be any number.
func bounded(n uint64) int64 { return int64(min(n, nodecall.MaxCount)) }
