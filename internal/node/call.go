package node

import (
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// Calls among the nodes of an attempt. Those that a controller, `bee exec` and
// the launch agent make are in package nodecall.
var ( //nolint:gochecknoglobals // constants
	callJoin       = rpc.Method[joinRequest, rpc.None]{Name: "join", By: rpc.Node}
	callBegin      = rpc.Method[beginRequest, beginReply]{Name: "begin", By: rpc.Head, Request: 4 * rpc.LargeSize, Within: rpc.Unlimited} // answered once the node has the image
	callStart      = rpc.Method[startRequest, startReply]{Name: "start", By: rpc.Head, Within: rpc.Unlimited}                             // answered once its container runs
	callSync       = rpc.Method[rpc.None, rpc.None]{Name: "sync", By: rpc.Head, Within: rpc.Unlimited}                                    // take the volume from your parent in the tree
	callForget     = rpc.Method[spread.Thing, rpc.None]{Name: "forget", By: rpc.Head}                                                     // what all hosts have (see package spread)
	callEnd        = rpc.Method[endRequest, endReply]{Name: "end", By: rpc.Head, Within: rpc.Unlimited}
	callSignal     = rpc.Method[signalRequest, signalReply]{Name: "signal", By: rpc.Head, Within: rpc.Unlimited}                  // for the ranks there
	callHold       = rpc.Method[holdRequest, rpc.None]{Name: "hold", By: rpc.Head, Request: rpc.LargeSize, Within: rpc.Unlimited} // what becomes of its virtual machine (see own_machine.go)
	callPart       = rpc.Method[partRequest, rpc.None]{Name: "part", By: rpc.Nodes}                                               // then saved machines' files
	callLook       = rpc.Method[globs, snapshot.Look]{Name: "look", By: rpc.Head, Request: rpc.LargeSize, Within: rpc.Unlimited}  // what matches in the volume (see volumes.go)
	callGather     = rpc.Method[globs, rpc.None]{Name: "gather", By: rpc.Head, Request: rpc.LargeSize}                            // then what matches in the volume (see gather.go)
	callFailed     = rpc.Method[failure, rpc.None]{Name: "failed", By: rpc.Node}                                                  // the node's container has died
	callNote       = rpc.Method[note, rpc.None]{Name: "note", By: rpc.Node}                                                       // words for the user
	callAwaitImage = rpc.Method[spread.Thing, rpc.None]{Name: "await-image", By: rpc.Node, Within: rpc.Unlimited}                 // answered once the head's cache has it
	callHello      = rpc.Method[rpc.None, rpc.None]{Name: "hello", By: rpc.Nodes}                                                 // does the way between us work, and are you there
	callCarry      = rpc.Method[carryRequest, rpc.None]{Name: "carry", By: rpc.Node}                                              // then what passes between the caller and that node's listener
)

type joinRequest struct {
	Rank  int      `json:"rank"`
	Addrs []string `json:"addrs"` // where this node listens, ip:port, best first
	// Reached is the head's address by which the node got through.
	Reached string `json:"reached"`
	// Network is that of the interface which reached the head.
	Network networkInfo `json:"network"`
	Cores   int         `json:"cores"`
	// Processors and Machine report to package mpi which hosts share processors.
	Processors int    `json:"processors"`
	Machine    string `json:"machine"`
	// Memory is what the host can give virtual machines.
	Memory driver.Memory `json:"memory,omitzero"`
	// NoRuntime reports why this host can run no container, where the plan
	// asks for virtual machines on demand.
	NoRuntime string `json:"no_runtime,omitempty"`
	// NoRings reports why a guest here cannot have the switch's network device, where
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
	Plan plan.Plan `json:"plan"`
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
	// Volume is what the head has chosen (plan.VM.Volume).
	Volume string `json:"volume,omitempty"`
}

type startReply struct {
	Runtime string `json:"runtime"`
	Why     string `json:"why"`
	// Notes are for the user, about this host.
	Notes []string `json:"notes,omitempty"`
}

type endRequest struct {
	Grace time.Duration `json:"grace"`
}

// holdRequest asks a node what to do with its virtual machine.
type holdRequest struct {
	Do string `json:"do"`
	// Number is that of the snapshot to save it for.
	Number int `json:"number,omitempty"`
	// Globs are what to take out of the volume that it holds.
	Globs []string `json:"globs,omitempty"`
}

// What a node may be asked to do with its virtual machine.
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
	Report core.NodeReport `json:"report"`
}

type failure struct {
	Rank   int         `json:"rank"`
	Failed rpc.Failure `json:"failed"`
}

// globs are patterns of files in the volume, relative to it.
type globs struct {
	Globs []string `json:"globs"`
}

type signalRequest struct {
	Number int `json:"number"`
}

type signalReply struct {
	// Some reports whether there were any ranks.
	Some bool `json:"some"`
}

// note is something for the run's user.
type note struct {
	Text string `json:"text"`
}

// carryRequest asks for a connection with another node.
type carryRequest struct {
	Rank int `json:"rank"`
}

// execTarget resolves whom a client means.
func execTarget(r nodecall.ExecRequest, members []member, self int) (int, error) {
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
