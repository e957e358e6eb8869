package broker

// State is a state of a queue pair, as enum ibv_qp_state has it.
type State uint32

// States of queue pairs.
const (
	Reset State = iota
	Init
	ReadyToReceive
	ReadyToSend
	SendDrained
	SendError
	Failed
	states // how many there are
)

// Type is a kind of queue pair, as enum ibv_qp_type has it.
type Type uint32

// Types of queue pairs.
const (
	Reliable   Type = 2
	Unreliable Type = 3
	Datagram   Type = 4
)

// Attributes of a queue pair, as enum ibv_qp_attr_mask has them.
const (
	attrState uint32 = 1 << iota
	attrCurrent
	attrSQDEvent
	attrAccess
	attrPKey
	attrPort
	attrQKey
	attrAddress
	attrMTU
	attrTimeout
	attrRetries
	attrRNRRetries
	attrReceivePSN
	attrMaxRDAtomic
	attrAlternate
	attrMinRNRTimer
	attrSendPSN
	attrMaxDestRDAtomic
	attrPath
	attrCap
	attrDestination
)

// change is what a change from one state to another needs and allows, by type.
type change struct {
	valid              bool
	required, optional map[Type]uint32
}

// end is a change that needs nothing.
var end = change{valid: true}

// changes is the state table of the kernel (qp_state_table in
// drivers/infiniband/core/verbs.c), for the types that there are.
var changes = [states][states]change{
	Reset: {
		Reset: end,
		Init: {valid: true, required: map[Type]uint32{
			Datagram:   attrPKey | attrPort | attrQKey,
			Unreliable: attrPKey | attrPort | attrAccess,
			Reliable:   attrPKey | attrPort | attrAccess,
		}},
	},
	Init: {
		Reset: end, Failed: end,
		Init: {valid: true, optional: map[Type]uint32{
			Datagram:   attrPKey | attrPort | attrQKey,
			Unreliable: attrPKey | attrPort | attrAccess,
			Reliable:   attrPKey | attrPort | attrAccess,
		}},
		ReadyToReceive: {valid: true, required: map[Type]uint32{
			Unreliable: attrAddress | attrMTU | attrDestination | attrReceivePSN,
			Reliable:   attrAddress | attrMTU | attrDestination | attrReceivePSN | attrMaxDestRDAtomic | attrMinRNRTimer,
		}, optional: map[Type]uint32{
			Datagram:   attrPKey | attrQKey,
			Unreliable: attrAlternate | attrAccess | attrPKey,
			Reliable:   attrAlternate | attrAccess | attrPKey,
		}},
	},
	ReadyToReceive: {
		Reset: end, Failed: end,
		ReadyToSend: {valid: true, required: map[Type]uint32{
			Datagram:   attrSendPSN,
			Unreliable: attrSendPSN,
			Reliable:   attrTimeout | attrRetries | attrRNRRetries | attrSendPSN | attrMaxRDAtomic,
		}, optional: map[Type]uint32{
			Datagram:   attrCurrent | attrQKey,
			Unreliable: attrCurrent | attrAlternate | attrAccess | attrPath,
			Reliable:   attrCurrent | attrAlternate | attrAccess | attrMinRNRTimer | attrPath,
		}},
	},
	ReadyToSend: {
		Reset: end, Failed: end,
		ReadyToSend: {valid: true, optional: map[Type]uint32{
			Datagram:   attrCurrent | attrQKey,
			Unreliable: attrCurrent | attrAccess | attrAlternate | attrPath,
			Reliable:   attrCurrent | attrAccess | attrAlternate | attrPath | attrMinRNRTimer,
		}},
		SendDrained: {valid: true, optional: map[Type]uint32{
			Datagram: attrSQDEvent, Unreliable: attrSQDEvent, Reliable: attrSQDEvent,
		}},
	},
	SendDrained: {
		Reset: end, Failed: end,
		ReadyToSend: {valid: true, optional: map[Type]uint32{
			Datagram:   attrCurrent | attrQKey,
			Unreliable: attrCurrent | attrAlternate | attrAccess | attrPath,
			Reliable:   attrCurrent | attrAlternate | attrAccess | attrMinRNRTimer | attrPath,
		}},
		SendDrained: {valid: true, optional: map[Type]uint32{
			Datagram:   attrPKey | attrQKey,
			Unreliable: attrAddress | attrAlternate | attrAccess | attrPKey | attrPath,
			Reliable: attrPort | attrAddress | attrTimeout | attrRetries | attrRNRRetries | attrMaxRDAtomic |
				attrMaxDestRDAtomic | attrAlternate | attrAccess | attrPKey | attrMinRNRTimer | attrPath,
		}},
	},
	SendError: {
		Reset: end, Failed: end,
		ReadyToSend: {valid: true, optional: map[Type]uint32{
			Datagram:   attrCurrent | attrQKey,
			Unreliable: attrCurrent | attrAccess,
		}},
	},
	Failed: {Reset: end, Failed: end},
}

// allowed reports whether a queue pair may go from one state to another with these
// attributes (ib_modify_qp_is_ok of the kernel).
func allowed(t Type, from, to State, mask uint32) bool {
	if from >= states || to >= states {
		return false
	}
	c := changes[from][to]
	required := c.required[t]
	return c.valid && mask&required == required && mask&^(required|c.optional[t]|attrState) == 0
}

// connected reports whether a queue pair in this state has a peer.
func (s State) connected() bool {
	return s == ReadyToReceive || s == ReadyToSend || s == SendDrained || s == SendError
}
