package node

import (
	"strconv"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// A node has one connection for control, to the head, over which a silence of
// seconds means that the other end is lost; and, for whatever may be much,
// others that are made when they are needed. The TLS handshake's protocol
// name reports which one a connection is.
const (
	forControl = "bee-control"
	forData    = "bee-data"
	forVerbs   = "bee-verbs"
	forFabric  = "bee-fabric-" // frames of guests, by a connection of that number: see package fabric
	forClear   = "bee-clear-"  // the same, which leaves TLS behind once the ends know each other
)

// purposesOf are the purposes of a link's connections, of one of these kinds.
func purposesOf(kind string) []string {
	all := make([]string, fabric.MostConnections)
	for i := range all {
		all[i] = kind + strconv.Itoa(i)
	}
	return all
}

const handshakeTimeout = wire.HandshakeTimeout

// nodeOf is the node of a rank as a caller.
func nodeOf(rank int) rpc.Caller {
	if rank == 0 {
		return rpc.Caller{Role: rpc.Head}
	}
	return rpc.Caller{Role: rpc.Node, Rank: rank}
}
