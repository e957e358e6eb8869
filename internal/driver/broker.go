package driver

import (
	"context"
	"net"
	"net/netip"

	"github.com/bee-hpc/bee/internal/core"
)

// GuestBroker is the broker of bee_0 that the agent of a machine runs for the machine's container. To other brokers, it
// is that of a machine of its own.
type GuestBroker interface {
	// Serve has it use a connection with the broker of another node, until that ends, and closes the connection.
	Serve(ctx context.Context, c net.Conn, rank int) error
	// Renew has it ask again for a connection with the broker of another node, which claims to have none.
	Renew(ctx context.Context, rank int) error
	// Statistics returns what the device has done, by the machine's word.
	Statistics(ctx context.Context) (core.VerbsPort, error)
}

// BrokerOptions are what the agent of a machine makes its broker of, or the way to that of its host.
type BrokerOptions struct {
	// Rank is that of the node, and Ports are those of all nodes of the run, by rank.
	Rank  int          `json:"rank"`
	Ports []BrokerPort `json:"ports"`
	// Memory and QPs bound the device, in bytes and queue pairs; 0: as broker limits are by default.
	Memory int64 `json:"memory,omitempty"`
	QPs    int   `json:"qps,omitempty"`
	// Library, Socket and Node are where the container has the parts of the device.
	Library string `json:"library"`
	Socket  string `json:"socket"`
	Node    string `json:"node"`
	// Pool has the broker run on the host, with memory that all guests there share; nil: the agent runs it.
	Pool *VerbsPool `json:"pool,omitempty"`
	// Ask asks once for a connection with the broker of another node, which GuestBroker.Serve then gets.
	Ask func(ctx context.Context, rank int) error `json:"-"`
}

// BrokerPort is the port of bee_0 of a node. IP is the address by which programs find it; not valid: they do not.
type BrokerPort struct {
	LID uint16     `json:"lid"`
	GID [16]byte   `json:"gid"`
	IP  netip.Addr `json:"ip,omitzero"`
}
