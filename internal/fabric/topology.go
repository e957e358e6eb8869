package fabric

import (
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
)

// Kinds of network between guests.
const (
	// None leaves it out.
	None = "none"
	// Switch links each host with each: frames pass two switches.
	Switch = "switch"
	// Star has all frames pass node 0's switch, Tree the switches on the way
	// in a binary tree with node 0 as its root: fewer connections, for sites
	// that let hosts reach only some others. Nodes are linked in the same
	// tree over which images spread.
	Star = "star"
	Tree = "tree"
	// Multicast has the hypervisors speak to each other by IP multicast,
	// without switches of ours.
	Multicast = "multicast"
)

// Check refuses what cannot be a fabric of so many guests.
func Check(kind string, size int) error {
	if size > MaxRanks {
		return &core.Error{Kind: core.Invalid, Op: "make the network between guests", Err: fmt.Errorf("it has room for %d guests", MaxRanks), Remedy: "Ask for fewer `nodes`."}
	}
	switch kind {
	case "", None, Switch, Star, Tree, Multicast:
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "make the network between guests", Object: kind, Err: errors.New("there is none of that kind"), Remedy: "Use switch, star, tree or multicast."}
}

// parent of a host in the tree.
func parent(host int) int { return (host - 1) / 2 }

// Above are the hosts of lower number that a host is linked to: of each two the
// later one makes the connection.
func Above(kind string, host int) []int {
	switch {
	case host == 0:
		return nil
	case kind == Star:
		return []int{0}
	case kind == Tree:
		return []int{parent(host)}
	}
	all := make([]int, host)
	for i := range all {
		all[i] = i
	}
	return all
}

// Below are the hosts that have no other way to host 0 than by one of them,
// which comes first; in a full mesh that is the host alone.
func Below(kind string, host, hosts int) []int {
	below := []int{host}
	for h := range hosts {
		switch {
		case h == host:
		case kind == Star && host == 0:
			below = append(below, h)
		case kind == Tree:
			for at := h; at > 0; at = parent(at) {
				if parent(at) == host {
					below = append(below, h)
				}
			}
		}
	}
	return below
}

// next is the neighbour on the way from one host to another.
func next(kind string, own, to int) int {
	switch kind {
	case Star:
		if own != 0 {
			return 0
		}
	case Tree:
		for at := to; at > 0; at = parent(at) {
			if parent(at) == own {
				return at
			}
		}
		return parent(own)
	}
	return to
}

// neighbours are the hosts that a host is linked to.
func neighbours(kind string, own, hosts int) []int {
	var all []int
	for h := range hosts {
		if h != own && next(kind, own, h) == h {
			all = append(all, h)
		}
	}
	return all
}

// passes reports whether switches pass on what came by a link. In a full mesh
// they must not: everyone was sent it already.
func passes(kind string) bool { return kind == Star || kind == Tree }
