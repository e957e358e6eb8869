// Package nodecall holds the calls that a node answers: for the controller, for commands of the
// run's user, for launch agents and for other nodes. It is data only, so that the client
// need not know the node, nor the node its client.
package nodecall

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// Protocol is what a node speaks with everybody.
var Protocol = rpc.Protocol{Name: "node", Version: plan.Version}

const (
	// MostRelayed is how many connections of a head to a bucket are answered at a time. As many wait.
	MostRelayed = 32
	// RelayWindow is how many bytes of each wait to be read.
	RelayWindow = 1 << 20
)

// The calls that a controller, commands of the run's user and launch agents make.
var (
	CallWatch     = rpc.Method[WatchRequest, rpc.None]{Name: "watch", By: rpc.Controller}
	CallOutput    = rpc.Method[OutputRequest, rpc.None]{Name: "output", By: rpc.Controller}
	CallExec      = rpc.Method[ExecRequest, rpc.None]{Name: "exec", By: rpc.Controller | rpc.LaunchAgent | rpc.Nodes, Request: rpc.LargeSize}
	CallInput     = rpc.Method[InputRequest, InputReply]{Name: "input", By: rpc.Controller, Within: rpc.Unlimited}
	CallStop      = rpc.Method[StopRequest, rpc.None]{Name: "stop", By: rpc.Controller}
	CallExtend    = rpc.Method[ExtendRequest, rpc.None]{Name: "extend", By: rpc.Controller}
	CallSave      = rpc.Method[SaveRequest, SaveReply]{Name: "save", By: rpc.Controller, Within: rpc.Unlimited}
	CallSnapshot  = rpc.Method[rpc.None, rpc.None]{Name: "snapshot", By: rpc.Controller, Within: rpc.Unlimited}
	CallHold      = rpc.Method[HoldRequest, rpc.None]{Name: "hold-snapshot", By: rpc.Controller}
	CallAddresses = rpc.Method[rpc.None, Addresses]{Name: "addresses", By: rpc.Controller}
	CallHealth    = rpc.Method[rpc.None, Health]{Name: "health", By: rpc.Controller}
	CallConsole   = rpc.Method[rpc.None, Console]{Name: "console", By: rpc.Controller, Reply: rpc.LargeSize}
	CallLogin     = rpc.Method[rpc.None, Login]{Name: "login", By: rpc.Controller}
	// CallRelay has the stream carry connections of a burst buffer that reaches its bucket through the caller, within
	// MostRelayed and RelayWindow.
	CallRelay = rpc.Method[rpc.None, rpc.None]{Name: "relay-bucket", By: rpc.Controller}
	// CallUseKeys has the burst buffer use other credentials that are sent for its bucket.
	CallUseKeys = rpc.Method[core.BucketKeys, rpc.None]{Name: "use-bucket-keys", By: rpc.Controller}
	// CallKeysExpire asks whether those that it uses expire.
	CallKeysExpire = rpc.Method[rpc.None, KeysExpire]{Name: "bucket-keys-expire", By: rpc.Controller}
	CallFabric     = rpc.Method[rpc.None, Fabric]{Name: "fabric", By: rpc.Controller, Reply: rpc.LargeSize}
)

// MaxEvent bounds one event of a head, in bytes. The last one has the result, with the
// list of outputs.
const MaxEvent = 16 << 20

func invalid(what string, value any) error {
	return &core.Error{Kind: core.Invalid, Op: "check", Object: what, Err: fmt.Errorf("%.200q is no valid value", fmt.Sprint(value)), Remedy: core.RemedyVersions}
}

// KeysExpire is whether credentials that were sent expire, also where nobody knows when.
type KeysExpire struct {
	Expire bool `json:"expire,omitempty"`
}

// WatchRequest asks for the events after a sequence number.
type WatchRequest struct {
	After int64 `json:"after"`
}

// Check implements the check of package rpc.
func (r WatchRequest) Check() error {
	if r.After < 0 {
		return invalid("number of an event", r.After)
	}
	return nil
}

// OutputRequest asks for the task's output from an offset on.
type OutputRequest struct {
	Offset int64 `json:"offset"`
	Follow bool  `json:"follow"`
}

// Check implements the check of package rpc.
func (r OutputRequest) Check() error {
	if r.Offset < 0 {
		return invalid("offset of output", r.Offset)
	}
	return nil
}

// InputRequest asks to pass input to the job's command, once that has begun.
type InputRequest struct {
	// Lost reports that the rest of it never comes.
	Lost bool `json:"lost,omitempty"`
}

// InputReply is how much of the input has come to the head, and how much of that the
// command has been given, in bytes.
type InputReply struct {
	Taken   int64 `json:"taken,omitempty"`
	Written int64 `json:"written,omitempty"`
}

// Check implements the check of package rpc.
func (r InputReply) Check() error {
	if r.Written < 0 || r.Taken < r.Written {
		return invalid("length of the job's input", r.Taken)
	}
	return nil
}

// StopRequest asks for the end of the attempt.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
}

// Check implements the check of package rpc.
func (r StopRequest) Check() error {
	if r.Grace < 0 {
		return invalid("grace", r.Grace)
	}
	return nil
}

// ExtendRequest reports a site that takes its hosts back later.
type ExtendRequest struct {
	Ends time.Time `json:"ends"`
}

// Check implements the check of package rpc.
func (r ExtendRequest) Check() error {
	if r.Ends.IsZero() {
		return invalid("end of the hosts' time", r.Ends)
	}
	return nil
}

// SaveRequest asks for a checkpoint now.
type SaveRequest struct {
	// Move has the task end with it in any case.
	Move bool `json:"move,omitempty"`
}

// SaveReply reports what became of that.
type SaveReply struct {
	// Kept is the number of the checkpoint, where the task continues; 0: it was asked to
	// write one and end.
	Kept int `json:"kept,omitempty"`
}

// Check implements the check of package rpc.
func (r SaveReply) Check() error {
	if r.Kept < 0 || r.Kept > maxSnapshot {
		return invalid("number of a checkpoint", r.Kept)
	}
	return nil
}

// HoldRequest asks for a checkpoint that was kept to stay.
type HoldRequest struct {
	Snapshot int `json:"snapshot"`
}

// Check implements the check of package rpc.
func (r HoldRequest) Check() error {
	if r.Snapshot < 1 || r.Snapshot > maxSnapshot {
		return invalid("number of a checkpoint", r.Snapshot)
	}
	return nil
}

// Health is what a node reports itself.
type Health struct {
	Rank  int        `json:"rank"`
	Phase core.Phase `json:"phase"`
	// Running reports whether the node's container runs.
	Running bool `json:"running"`
}

// Check implements the check of package rpc.
func (h Health) Check() error {
	if h.Rank < 0 || h.Rank > MaxRank {
		return invalid("rank", h.Rank)
	}
	if h.Phase != "" && !slices.Contains(core.Phases(), h.Phase) {
		return invalid("phase", h.Phase)
	}
	return nil
}

// ExecRequest names a command and the node in whose container it shall run:
// by Host, else by Rank.
type ExecRequest struct {
	Host string `json:"host,omitempty"`
	Rank int    `json:"rank,omitempty"`
	// Guest means the virtual machine around the container, and its root.
	Guest bool     `json:"guest,omitempty"`
	Args  []string `json:"args"`
	// Env is added to the container's own environment.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"` // default: the job's working directory
	// TTY gives the command a terminal of Rows and Cols; its standard error
	// then comes with its standard output.
	TTY  bool   `json:"tty,omitempty"`
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
	// Resized reports new sizes of the terminal (rows, columns).
	Resized <-chan [2]uint16 `json:"-"`
}

// Check implements the check of package rpc.
func (r ExecRequest) Check() error {
	if r.Rank < 0 || r.Rank > MaxRank {
		return invalid("rank", r.Rank)
	}
	if len(r.Host) > maxHostName {
		return invalid("name of a host", r.Host)
	}
	if len(r.Args) == 0 || r.Args[0] == "" {
		return &core.Error{Kind: core.Invalid, Op: "check", Object: "command", Err: errors.New("there is none"), Remedy: core.RemedyVersions}
	}
	for _, text := range slices.Concat(r.Args, r.Env, []string{r.Dir, r.Host}) {
		if strings.ContainsRune(text, 0) {
			return invalid("command", text)
		}
	}
	return nil
}

// Addresses are where the other nodes find a head.
type Addresses struct {
	Addrs []string `json:"addrs"` // ip:port, best first
}

// Check implements the check of package rpc.
func (a Addresses) Check() error { return CheckAddresses(a.Addrs) }

// CheckAddresses refuses what is no list of ip:port.
func CheckAddresses(addrs []string) error {
	if len(addrs) > maxAddrs {
		return invalid("addresses", len(addrs))
	}
	for _, addr := range addrs {
		if err := CheckAddress(addr); err != nil {
			return err
		}
	}
	return nil
}

// CheckAddress refuses what is no ip:port.
func CheckAddress(addr string) error {
	if a, err := netip.ParseAddrPort(addr); err != nil || a.Port() == 0 {
		return invalid("address", addr)
	}
	return nil
}

// Console is what the kernel of a virtual machine has written. It may hold anything.
type Console struct {
	Text string `json:"text"`
}

// Login is an account in a virtual machine.
type Login struct {
	Name string `json:"name"`
}

// Check implements the check of package rpc: the name becomes a part of ssh's
// configuration.
func (l Login) Check() error {
	if !accountName.MatchString(l.Name) {
		return invalid("name of an account", l.Name)
	}
	return nil
}

var accountName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,31}\$?$`)

// Fabric is what has passed a node's switch.
type Fabric struct {
	Stats fabric.Stats `json:"stats"`
}

// Check implements the check of package rpc.
func (f Fabric) Check() error {
	if f.Stats.Rank < 0 || f.Stats.Rank > MaxRank || f.Stats.Guests < 0 || f.Stats.Guests != len(f.Stats.Ports) {
		return invalid("statistics of the guests' network", f.Stats.Guests)
	}
	return nil
}

const (
	// MaxRank is above the rank of any node.
	MaxRank = 1 << 20
	// maxSnapshot is above the number of any snapshot.
	maxSnapshot = 1 << 30
	// maxHostName is the longest name of a host, as in DNS.
	maxHostName = 255
	maxAddrs    = 256
)
