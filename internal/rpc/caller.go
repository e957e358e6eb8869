package rpc

import "strings"

// Role is what a process at the other end of a connection may be; a set of them
// says who may make a call. The end that accepts a connection decides its role, by a
// key or by the socket that it came through.
type Role uint16

const (
	// Controller is the run's controller, or a command of the run's user.
	Controller Role = 1 << iota
	// Head is node 0 of the attempt.
	Head
	// Node is any other node of the attempt.
	Node
	// LaunchAgent is a program in a container of the attempt.
	LaunchAgent
	// Host is the host of a guest.
	Host
	// Guest is a guest, from the host's point of view.
	Guest
)

// Nodes are all nodes of an attempt, the head included.
const Nodes = Head | Node

var roleNames = [...]string{"controller", "head", "node", "launch agent", "host", "guest"}

// String names the roles of a set.
func (r Role) String() string {
	var names []string
	for i, name := range roleNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, " or ")
}

// Caller is the other end of a connection, as it was authenticated.
type Caller struct {
	Role Role
	// Rank is that of a Head or Node, else -1.
	Rank int
	// Peer is the connection, by which the caller can be called in turn.
	Peer *Peer
}
