package node

import (
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/protocol"
)

// Calls among the nodes of an attempt. Those that a controller, `bee exec` and
// the launch agent make are in package client.
const (
	callJoin       = "join"        // node to head: joinRequest, answered with nothing
	callBegin      = "begin"       // head to node: beginRequest, beginReply once it has the image
	callStart      = "start"       // head to node: startRequest, startReply once its container runs
	callSync       = "sync"        // head to node: take the volume from your parent in the tree
	callForget     = "forget"      // head to node: what all hosts have (see spread.go)
	callEnd        = "end"         // head to node: endRequest, endReply with what the node used
	callSignal     = "signal"      // head to node: a signal for the ranks there, whether there were any
	callHold       = "hold"        // head to node: what becomes of its virtual machine (see saved.go)
	callPart       = "part"        // between nodes: partRequest, then saved machines' files
	callLook       = "look"        // head to node: globs, then what matches in the volume is like (see copies.go)
	callGather     = "gather"      // head to node: globs, then what matches in the volume (see gather.go)
	callFailed     = "failed"      // node to head: failure, when its container has died
	callNote       = "note"        // node to head: words for the user
	callAwaitImage = "await-image" // node to head: which; answered once the head's cache has it
	callHello      = "hello"       // does the way between us work, and are you there
	callCarry      = "carry"       // node to head: a rank, then what passes between the caller and that node's listener
	callSpread     = "spread"      // node to node: what, then its bytes (see spread.go)
)

type joinRequest struct {
	Rank  int      `json:"rank"`
	Addrs []string `json:"addrs"` // where this node listens, ip:port, best first
	// Reached is the head's address by which the node got through.
	Reached string `json:"reached"`
	// Network is that of the interface which reached the head.
	Network networkInfo `json:"network"`
	Cores   int         `json:"cores"`
	// Processors and Machine tell package mpi which hosts share processors.
	Processors int    `json:"processors"`
	Machine    string `json:"machine"`
	// Memory is what the host can give virtual machines.
	Memory driver.Memory `json:"memory,omitzero"`
	// NoRuntime tells why this host can run no container, where the plan
	// asks for virtual machines on demand.
	NoRuntime string `json:"no_runtime,omitempty"`
	// NoRings tells why a guest here cannot have the switch's network device, where
	// the plan leaves that open.
	NoRings string `json:"no_rings,omitempty"`
	// Nonce is the word that this node left in its directory (see share.go).
	Nonce string `json:"nonce"`
}

// member is one node as all others know it.
type member struct {
	Rank  int    `json:"rank"`
	Name  string `json:"name"`
	Addr  string `json:"addr"` // ip:port
	IP    string `json:"ip"`   // "" of a lone one, which has no need of the network
	Cores int    `json:"cores"`
	Slots int    `json:"slots"`
	// Processors are those of Machine, the boot that the host is a part of:
	// emulated hosts of one machine have the same.
	Processors int    `json:"processors"`
	Machine    string `json:"machine"`
}

// address is where programs inside find a member.
func (m *member) address() string {
	if m.IP == "" {
		return "127.0.0.1"
	}
	return m.IP
}

// beginRequest is what a node needs to start its container.
type beginRequest struct {
	Members []member `json:"members"`
	// Plan without what concerns the head alone.
	Plan protocol.Plan `json:"plan"`
	// Nonces are the words that all nodes left, by rank.
	Nonces []string `json:"nonces"`
	// CacheToken marks the head's image cache.
	CacheToken string      `json:"cache_token"`
	Network    networkInfo `json:"network"`
	Runtime    string      `json:"runtime"`
}

type beginReply struct {
	// Group is the lowest rank that sees the node's Host.Dir as its own.
	Group int `json:"group"`
}

type startRequest struct {
	Runtime string `json:"runtime"`
	// Volume is what the head has chosen (protocol.VM.Volume).
	Volume string `json:"volume,omitempty"`
}

type startReply struct {
	Runtime string `json:"runtime"`
	Why     string `json:"why"`
}

type endRequest struct {
	Grace time.Duration `json:"grace"`
}

// holdRequest tells a node what to do with its virtual machine.
type holdRequest struct {
	Do string `json:"do"`
	// Number is that of the snapshot to save it for.
	Number int `json:"number,omitempty"`
	// Globs are what to take out of the volume that it holds.
	Globs []string `json:"globs,omitempty"`
}

// What a node may be told to do with its virtual machine.
const (
	holdPause  = "pause"
	holdResume = "resume"
	holdSave   = "save"
	holdFill   = "fill" // with the volume as it is on the host
	holdTake   = "take files out of"
)

// partRequest asks for the files of a node's saved machine: of a snapshot, or,
// with Number 0, of what is to be brought up.
type partRequest struct {
	Rank   int `json:"rank"`
	Number int `json:"number,omitempty"`
}

type endReply struct {
	Report protocol.NodeReport `json:"report"`
}

type failure struct {
	Rank    int    `json:"rank"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
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
	return 0, &core.Error{
		Kind: core.NotFound, Op: "start on host", Object: r.Host, Err: errNoMember,
		Remedy: "Name a host of BEE_NODELIST.",
	}
}
