package node

import (
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/protocol"
)

// Calls among the nodes of an attempt. Those that a controller, `bee exec` and
// the launch agent make are in package client.
const (
	callJoin   = "join"   // node to head: joinRequest, answered with nothing
	callBegin  = "begin"  // head to node: beginRequest, beginReply once its container runs
	callSync   = "sync"   // head to node: take the volume from your parent in the tree
	callEnd    = "end"    // head to node: endRequest, endReply with what the node used
	callFailed = "failed" // node to head: failure, when its container has died
	callHello  = "hello"  // node to node: does the way between us work
	callImage  = "image"  // node to node: imageRequest, then the flattened image
	callTree   = "tree"   // node to node: treeRequest, then files
)

type joinRequest struct {
	Rank  int      `json:"rank"`
	Addrs []string `json:"addrs"` // where this node listens, ip:port, best first
	// Reached is the head's address by which the node got through.
	Reached string `json:"reached"`
	Network string `json:"network"` // CIDR of the interface that reached the head
	Cores   int    `json:"cores"`
	Arch    string `json:"arch"`
}

// member is one node as all others know it.
type member struct {
	Rank  int    `json:"rank"`
	Name  string `json:"name"`
	Addr  string `json:"addr"` // ip:port
	IP    string `json:"ip"`
	Cores int    `json:"cores"`
	Slots int    `json:"slots"`
}

// beginRequest is what a node needs to start its container.
type beginRequest struct {
	Members []member `json:"members"`
	// Plan without what concerns the head alone.
	Plan protocol.Plan `json:"plan"`
	// Token is the name of a file that the head wrote into its Host.Dir, to
	// find out which hosts see the same directory.
	Token   string `json:"token"`
	Network string `json:"network"`
	Runtime string `json:"runtime"`
}

type beginReply struct {
	Shared  bool   `json:"shared"`
	Runtime string `json:"runtime"`
	Why     string `json:"why"`
}

type endRequest struct {
	// Outputs are globs in the volume; the node answers with what matches.
	Outputs []string      `json:"outputs,omitempty"`
	Grace   time.Duration `json:"grace"`
}

type endReply struct {
	Report  protocol.NodeReport `json:"report"`
	Outputs []string            `json:"outputs,omitempty"` // relative to the volume
}

type failure struct {
	Rank    int    `json:"rank"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

type imageRequest struct {
	ID string `json:"id"`
}

type treeRequest struct {
	// What is volume, inputs, or files: then Files, relative to the volume.
	What  string   `json:"what"`
	Files []string `json:"files,omitempty"`
}

// execTarget resolves whom a client means.
func execTarget(r client.ExecRequest, members []member, self int) (int, error) {
	if r.Host == "" {
		return r.Rank, nil
	}
	for _, m := range members {
		if m.Name == r.Host || m.IP == r.Host {
			return m.Rank, nil
		}
	}
	if r.Host == "localhost" || r.Host == "127.0.0.1" {
		return self, nil
	}
	return 0, &core.Error{Kind: core.NotFound, Op: "start on host", Object: r.Host, Err: errNoMember,
		Remedy: "Name a host of BEE_NODELIST."}
}
