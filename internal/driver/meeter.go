package driver

import (
	"context"
	"time"
)

// Meeter is what a lease may offer further, and the place of a store, whose agent
// may be within reach of that of another: what travels between the two then need not
// come here.
type Meeter interface {
	// Machine names the one on which the agent is.
	Machine() string
	// Meet has the agent listen for another one, or connect to it, once. The end
	// of ctx, or of the way to the agent, is also that of the meeting.
	Meet(ctx context.Context, m Meeting) (End, error)
}

// Meeting is what one end of a meeting has to know.
type Meeting struct {
	// Name is what transfers that use it call it by: see Transfer.Via.
	Name string `json:"name"`
	// Addrs are the ip:port at which the other end listens; none: this one shall.
	Addrs []string `json:"addrs,omitempty"`
	// CA, Cert and Key are PEM, and of this one meeting.
	CA   []byte `json:"ca"`
	Cert []byte `json:"cert"`
	Key  []byte `json:"key"`
	// Limit is how long it tries.
	Limit time.Duration `json:"limit"`
}

// End is one end of a meeting.
type End interface {
	// Addrs are those at which it listens.
	Addrs() []string
	// Met waits for the other end, and gives its address. Unsupported: they do not
	// reach each other.
	Met() (string, error)
	// Close ends the meeting, and what goes over it.
	Close() error
}

// Yielder is what a lease may offer further whose nodes have ended: to give back the
// hosts that others wait for. What lies on the head's stays until Release, where Hosts
// then says: out of the way of another lease of the run. Idempotent.
type Yielder interface {
	Yield(ctx context.Context) error
}

// Heir is what a lease may offer further: to begin with what an earlier one of the run,
// which has yielded, still has on the same machine.
type Heir interface {
	// Inherit makes the tree from, of the earlier lease, the tree to of this one. It is
	// moved, so that it takes no time and no space. Idempotent.
	Inherit(ctx context.Context, from, to string) error
}

// Passer is what a lease may offer further: what an attempt has left there can go
// straight to the site where the run goes on.
type Passer interface {
	Meeter
	Yielder
	// Pass sends t.Remote over the connection of the meeting t.Via to who receives it
	// at the other end of that, and returns when it has arrived. cut ends the meeting.
	Pass(ctx context.Context, t Transfer, to Receiver, cut func()) error
}
