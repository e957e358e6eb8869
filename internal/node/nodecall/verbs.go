package nodecall

import "github.com/bee-hpc/bee/internal/rpc"

// CallVerbs asks for what bee_0 has done in the containers whose broker this node runs.
var CallVerbs = rpc.Method[rpc.None, Verbs]{Name: "verbs", By: rpc.Controller, Reply: rpc.LargeSize}

// Verbs is what bee_0 has done in the containers of one machine.
type Verbs struct {
	Ports []VerbsPort `json:"ports"`
}

// VerbsPort is the device of one container. Programs count their operations and bytes
// themselves, so these may be any numbers.
type VerbsPort struct {
	Rank        int             `json:"node"`
	Processes   int64           `json:"processes"`
	MemoryBytes int64           `json:"memory_bytes"`
	Objects     VerbsObjects    `json:"objects"`
	States      VerbsStates     `json:"queue_pair_states"`
	Operations  VerbsOperations `json:"operations"`
	Bytes       VerbsBytes      `json:"bytes"`
	Errors      int64           `json:"errors"`
	Wakes       int64           `json:"wakes"`
	Refusals    VerbsRefusals   `json:"refusals"`
}

// VerbsObjects counts objects by kind.
type VerbsObjects struct {
	ProtectionDomains   int64 `json:"protection_domains"`
	CompletionQueues    int64 `json:"completion_queues"`
	Channels            int64 `json:"channels"`
	SharedReceiveQueues int64 `json:"shared_receive_queues"`
	AddressHandles      int64 `json:"address_handles"`
	QueuePairs          int64 `json:"queue_pairs"`
	MemoryRegions       int64 `json:"memory_regions"`
	SharedBlocks        int64 `json:"shared_blocks"`
	EventChannels       int64 `json:"event_channels"`
	ConnectionIDs       int64 `json:"connection_ids"`
}

// VerbsStates counts queue pairs by state.
type VerbsStates struct {
	Reset int64 `json:"reset"`
	Init  int64 `json:"init"`
	RTR   int64 `json:"rtr"`
	RTS   int64 `json:"rts"`
	SQD   int64 `json:"sqd"`
	SQE   int64 `json:"sqe"`
	Error int64 `json:"error"`
}

// VerbsOperations counts operations that were carried out: messages, direct ones on the
// memory of a peer, and those that the owner of the memory staged for its peers.
type VerbsOperations struct {
	Sends    int64 `json:"sends"`
	Receives int64 `json:"receives"`
	Writes   int64 `json:"writes"`
	Reads    int64 `json:"reads"`
	Atomics  int64 `json:"atomics"`
	Staged   int64 `json:"staged"`
}

// Direct is how many operations programs carried out on the memory of a peer.
func (o VerbsOperations) Direct() int64 { return o.Writes + o.Reads + o.Atomics }

// VerbsBytes counts bytes by path.
type VerbsBytes struct {
	Ring      int64 `json:"ring"`
	Direct    int64 `json:"direct"`
	Staged    int64 `json:"staged"`
	Forwarded int64 `json:"forwarded"` // to other machines
}

// VerbsRefusals counts requests that the broker refused.
type VerbsRefusals struct {
	Limits int64 `json:"limits"`
	Keys   int64 `json:"keys"`
	Others int64 `json:"others"`
}

// numbers are all counts of a port.
func (p VerbsPort) numbers() []int64 {
	o, s, n, b, r := p.Objects, p.States, p.Operations, p.Bytes, p.Refusals
	return []int64{
		p.Processes, p.MemoryBytes, p.Errors, p.Wakes,
		o.ProtectionDomains, o.CompletionQueues, o.Channels, o.SharedReceiveQueues, o.AddressHandles, o.QueuePairs, o.MemoryRegions, o.SharedBlocks, o.EventChannels, o.ConnectionIDs,
		s.Reset, s.Init, s.RTR, s.RTS, s.SQD, s.SQE, s.Error,
		n.Sends, n.Receives, n.Writes, n.Reads, n.Atomics, n.Staged, b.Ring, b.Direct, b.Staged, b.Forwarded, r.Limits, r.Keys, r.Others,
	}
}

// MaxCount is above every count of a port, so that a few may be added.
const MaxCount = 1 << 60

// Check implements the check of package rpc: each container once, and no number that
// cannot be.
func (v Verbs) Check() error {
	seen := map[int]bool{}
	for _, p := range v.Ports {
		if p.Rank < 0 || p.Rank > MaxRank || seen[p.Rank] {
			return invalid("node of a verbs device", p.Rank)
		}
		seen[p.Rank] = true
		for _, n := range p.numbers() {
			if n < 0 || n > MaxCount {
				return invalid("count of a verbs device", n)
			}
		}
		if s := p.States; s.Reset+s.Init+s.RTR+s.RTS+s.SQD+s.SQE+s.Error != p.Objects.QueuePairs {
			return invalid("number of queue pairs", p.Objects.QueuePairs)
		}
	}
	return nil
}
