// Package peercall has the calls among the nodes of an attempt, with the checks of what
// comes by them. It must not know who answers them, or how.
package peercall

import (
	"errors"
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
var (
	CallJoin       = rpc.Method[JoinRequest, rpc.None]{Name: "join", By: rpc.Node}
	CallBegin      = rpc.Method[BeginRequest, BeginReply]{Name: "begin", By: rpc.Head, Request: 4 * rpc.LargeSize, Within: rpc.Unlimited} // answered once the node has the image
	CallStart      = rpc.Method[StartRequest, StartReply]{Name: "start", By: rpc.Head, Within: rpc.Unlimited}                             // answered once its container runs
	CallMount      = rpc.Method[MountRequest, rpc.None]{Name: "mount", By: rpc.Head, Within: rpc.Unlimited}                               // the run's burst buffer
	CallVolume     = rpc.Method[rpc.None, rpc.None]{Name: "volume", By: rpc.Node}                                                         // then what passes between the caller and the I/O process of the burst buffer
	CallSync       = rpc.Method[rpc.None, rpc.None]{Name: "sync", By: rpc.Head, Within: rpc.Unlimited}                                    // take the volume from your parent in the tree
	CallForget     = rpc.Method[spread.Thing, rpc.None]{Name: "forget", By: rpc.Head}                                                     // what all hosts have (see package spread)
	CallEnd        = rpc.Method[EndRequest, EndReply]{Name: "end", By: rpc.Head, Within: rpc.Unlimited}
	CallSignal     = rpc.Method[SignalRequest, SignalReply]{Name: "signal", By: rpc.Head, Within: rpc.Unlimited}                  // for the ranks there
	CallUse        = rpc.Method[rpc.None, UseReply]{Name: "use", By: rpc.Head, Within: useTimeout}                                // what its containers use
	CallHold       = rpc.Method[HoldRequest, rpc.None]{Name: "hold", By: rpc.Head, Request: rpc.LargeSize, Within: rpc.Unlimited} // what becomes of its virtual machine (see container.Machine)
	CallPart       = rpc.Method[PartRequest, rpc.None]{Name: "part", By: rpc.Nodes}                                               // then saved machines' files
	CallLook       = rpc.Method[Globs, snapshot.Look]{Name: "look", By: rpc.Head, Request: rpc.LargeSize, Within: rpc.Unlimited}  // what matches in the volume (see package snapshot)
	CallGather     = rpc.Method[Globs, rpc.None]{Name: "gather", By: rpc.Head, Request: rpc.LargeSize}                            // then what matches in the volume
	CallFailed     = rpc.Method[Failure, rpc.None]{Name: "failed", By: rpc.Node}                                                  // the node's container has died
	CallNotice     = rpc.Method[Notice, rpc.None]{Name: "notice", By: rpc.Node}                                                   // what the cloud announces of the node's host
	CallNote       = rpc.Method[Note, rpc.None]{Name: "note", By: rpc.Node}                                                       // words for the user
	CallAwaitImage = rpc.Method[spread.Thing, rpc.None]{Name: "await-image", By: rpc.Node, Within: rpc.Unlimited}                 // answered once the head's cache has it
	CallHello      = rpc.Method[rpc.None, rpc.None]{Name: "hello", By: rpc.Nodes}                                                 // does the way between us work, and are you there
	CallBroker     = rpc.Method[rpc.None, BrokerReply]{Name: "broker", By: rpc.Nodes}                                             // of bee_0: who runs yours, and connect with mine
	CallCarry      = rpc.Method[CarryRequest, rpc.None]{Name: "carry", By: rpc.Node}                                              // then what passes between the caller and that node's listener
)

// JoinRequest is what a node reports of its host as it joins.
type JoinRequest struct {
	Rank  int      `json:"rank"`
	Addrs []string `json:"addrs"` // where this node listens, ip:port, best first
	// Reached is the head's address by which the node got through.
	Reached string `json:"reached"`
	// Network is that of the interface which reached the head.
	Network Network `json:"network"`
	Cores   int     `json:"cores"`
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

// Member is one node as all others know it.
type Member struct {
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

// Address is where programs inside find a member.
func (m *Member) Address() string {
	if m.IP == "" {
		return "127.0.0.1"
	}
	return m.IP
}

// BeginRequest is what a node needs to start its container.
type BeginRequest struct {
	Members []Member `json:"members"`
	// Plan without what concerns the head alone.
	Plan plan.Plan `json:"plan"`
	// Nonces are the words that all nodes left, by rank.
	Nonces []string `json:"nonces"`
	// CacheToken marks the head's image cache.
	CacheToken string  `json:"cache_token"`
	Network    Network `json:"network"`
	Runtime    string  `json:"runtime"`
}

// BeginReply is the answer to BeginRequest.
type BeginReply struct {
	// Group is the lowest rank that sees the node's Host.Dir as its own.
	Group int `json:"group"`
}

// MountRequest asks a node to mount the run's burst buffer.
type MountRequest struct {
	// ID is that of the volume.
	ID string `json:"id"`
}

// StartRequest asks a node to start its container.
type StartRequest struct {
	Runtime string `json:"runtime"`
	// Volume is what the head has chosen (plan.VM.Volume).
	Volume string `json:"volume,omitempty"`
}

// StartReply is the answer to StartRequest.
type StartReply struct {
	Runtime string `json:"runtime"`
	Why     string `json:"why"`
	// Notes are for the user, about this host.
	Notes []string `json:"notes,omitempty"`
}

// EndRequest asks a node to end its container.
type EndRequest struct {
	Grace time.Duration `json:"grace"`
}

// HoldRequest asks a node what to do with its virtual machine.
type HoldRequest struct {
	Do string `json:"do"`
	// Number is that of the snapshot to save it for.
	Number int `json:"number,omitempty"`
	// Globs are what to take out of the volume that it holds.
	Globs []string `json:"globs,omitempty"`
}

// What a node may be asked to do with its virtual machine.
const (
	HoldPause  = "pause"
	HoldResume = "resume"
	HoldSave   = "save"
	HoldFill   = "fill" // with the volume as it is on the host
	HoldTake   = "take files out of"
)

// PartRequest asks for the files of a node's saved machine: of a snapshot, or,
// with Number 0, of what is to be brought up.
type PartRequest struct {
	Rank   int `json:"rank"`
	Number int `json:"number,omitempty"`
}

// EndReply is the answer to EndRequest.
type EndReply struct {
	Report core.NodeReport `json:"report"`
}

// Failure is what keeps a node from its work.
type Failure struct {
	Rank   int         `json:"rank"`
	Failed rpc.Failure `json:"failed"`
}

// Globs are patterns of files in the volume, relative to it.
type Globs struct {
	Globs []string `json:"globs"`
}

// SignalRequest asks for a signal to the ranks of a node.
type SignalRequest struct {
	Number int `json:"number"`
}

// SignalReply is the answer to SignalRequest.
type SignalReply struct {
	// Some reports whether there were any ranks.
	Some bool `json:"some"`
}

// useTimeout bounds the wait for what a node uses: a sample less does no harm.
const useTimeout = 5 * time.Second

// UseReply is what the containers of a node use, on average since the call before.
type UseReply struct {
	Use core.Use `json:"use"`
}

// Note is something for the run's user.
type Note struct {
	Text string `json:"text"`
}

// Notice is what the site announces of the node's host.
type Notice struct {
	// Kind is "" where the host is taken back.
	Kind NoticeKind `json:"kind,omitempty"`
	// Seconds is how long the site leaves the host; of a recommendation it counts nothing.
	Seconds float64 `json:"seconds"`
}

// NoticeKind is what a notice announces.
type NoticeKind string

// Kinds of notices.
const (
	Reclaim     NoticeKind = ""            // the host is taken back
	Maintenance NoticeKind = "maintenance" // the host is stopped for maintenance
	Rebalance   NoticeKind = "rebalance"   // the site recommends to leave the host
)

// BrokerReply is the answer to CallBroker.
type BrokerReply struct {
	// Rank is the node that runs the broker of bee_0 on the machine of the node that was asked.
	Rank int `json:"rank"`
}

// CarryRequest asks for a connection with another node.
type CarryRequest struct {
	Rank int `json:"rank"`
}

// ExecTarget returns the rank of the node that a request names by its host or rank. A host
// that no member has is a NotFound error.
func ExecTarget(r nodecall.ExecRequest, members []Member, self int) (int, error) {
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
		Kind: core.NotFound, Op: "start on host", Object: r.Host, Err: ErrNoMember,
		Remedy: "Name a host of BEE_NODELIST.",
	}
}

// ErrNoMember is the error of a name that no node of the run has.
var ErrNoMember = errors.New("no node of this run has that name")

// Batch is how many names one message of a gathering holds.
const Batch = 2000

// MaxNames bounds such a message, in bytes: a path has 4,096, of which each may become
// six in JSON.
const MaxNames = 64 << 20

// Names is such a message. The last one of a list is empty.
type Names struct {
	Files []string `json:"files,omitempty"`
}
