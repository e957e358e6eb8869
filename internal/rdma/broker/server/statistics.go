package server

import (
	"errors"
	"syscall"

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
