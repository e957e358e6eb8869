package server

import (
	"errors"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Refusals count requests that were not carried out.
type Refusals struct {
	Limits uint64 // a limit was reached
	Keys   uint64 // the key is void, or gives no such right
	Others uint64 // the request is none that verbs allow there
}

// add counts the error of a request. Those that wait for a peer or event are no refusals.
func (r *Refusals) add(err error) {
	_, limit := errors.AsType[*broker.Limit](err)
	switch {
	case limit:
		r.Limits++
	case errors.Is(err, syscall.EACCES):
		r.Keys++
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTCONN), errors.Is(err, syscall.EAGAIN):
	default:
		r.Others++
	}
}

// Statistics are those of a container.
type Statistics struct {
	broker.Usage
	Refusals Refusals
	// Counters are what the programs count themselves, so they may hold anything.
	Counters [message.Counters]uint64
	// Forwarded are bytes that were sent to other machines.
	Forwarded uint64
}

// Statistics returns them, with the counters of processes that have ended.
func (p *Port) Statistics() Statistics {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	s := Statistics{Usage: p.node.Usage(), Refusals: p.refusals, Counters: p.counts}
	if far := p.server.far; far != nil {
		s.Forwarded = far.Bytes(p.node.Address.LID)
	}
	for proc := range p.live {
		for i, n := range proc.counters() {
			s.Counters[i] += n
		}
	}
	return s
}

// View returns the statistics of the port of a node as calls have them.
func (s Statistics) View(rank int) core.VerbsPort {
	object := func(kind uint32) int64 { return int64(s.Objects[kind]) }
	state := func(of broker.State) int64 { return int64(s.States[of]) }
	count := func(place int) int64 { return bounded(s.Counters[place]) }
	return core.VerbsPort{
		Rank: rank, Processes: int64(s.Processes), MemoryBytes: s.Memory, Errors: count(message.CountErrors), Wakes: count(message.CountWakes),
		Objects: core.VerbsObjects{
			ProtectionDomains: object(message.KindPD), CompletionQueues: object(message.KindCQ), Channels: object(message.KindChannel),
			SharedReceiveQueues: object(message.KindSRQ), AddressHandles: object(message.KindAH), QueuePairs: object(message.KindQP),
			MemoryRegions: object(message.KindMR), SharedBlocks: object(message.KindRegion),
			EventChannels: object(message.KindCMChannel), ConnectionIDs: object(message.KindCMID),
		},
		States: core.VerbsStates{
			Reset: state(broker.Reset), Init: state(broker.Init), RTR: state(broker.ReadyToReceive), RTS: state(broker.ReadyToSend),
			SQD: state(broker.SendDrained), SQE: state(broker.SendError), Error: state(broker.Failed),
		},
		Operations: core.VerbsOperations{
			Sends: count(message.CountSends), Receives: count(message.CountReceives), Writes: count(message.CountWrites),
			Reads: count(message.CountReads), Atomics: count(message.CountAtomics), Staged: count(message.CountStaged),
		},
		Bytes:    core.VerbsBytes{Ring: count(message.CountRingBytes), Direct: count(message.CountDirectBytes), Staged: count(message.CountStagedBytes), Forwarded: bounded(s.Forwarded)},
		Refusals: core.VerbsRefusals{Limits: bounded(s.Refusals.Limits), Keys: bounded(s.Refusals.Keys), Others: bounded(s.Refusals.Others)},
	}
}

// bounded is a count of programs, which may be any number.
func bounded(n uint64) int64 { return int64(min(n, core.MaxVerbsCount)) }
