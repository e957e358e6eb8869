package core

import "fmt"

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

// MaxVerbsCount is above every count of a port, so that a few may be added.
const MaxVerbsCount = 1 << 60

// Check returns an error where a number cannot be.
func (p VerbsPort) Check() error {
	for _, n := range p.numbers() {
		if n < 0 || n > MaxVerbsCount {
			return invalidVerbs(fmt.Errorf("it has the count %d, expected 0 to %d", n, int64(MaxVerbsCount)))
		}
	}
	if s := p.States; s.Reset+s.Init+s.RTR+s.RTS+s.SQD+s.SQE+s.Error != p.Objects.QueuePairs {
		return invalidVerbs(fmt.Errorf("its %d queue pairs are not as many as have a state", p.Objects.QueuePairs))
	}
	return nil
}

func invalidVerbs(err error) error {
	return &Error{Kind: Invalid, Op: "check statistics of", Object: "bee_0", Err: err, Remedy: RemedyVersions}
}
