package ssh

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// protocol is what a controller and the agents on its sites speak.
var protocol = rpc.Protocol{Name: "remote", Version: 2} //nolint:gochecknoglobals // a constant

// The calls of an agent. Each names its site, so that the agent finds leases
// again that an earlier agent made.
var ( //nolint:gochecknoglobals // constants
	callFacts    = rpc.Method[call, facts]{Name: "facts", By: rpc.Controller}
	callEcho     = rpc.Method[call, echoed]{Name: "echo", By: rpc.Controller, Request: rpc.LargeSize, Reply: rpc.LargeSize} // see driver.Provider
	callRuntime  = rpc.Method[call, runtimeName]{Name: "runtime", By: rpc.Controller, Within: rpc.Unlimited}
	callAcquire  = rpc.Method[call, granted]{Name: "acquire", By: rpc.Controller, Reply: rpc.LargeSize, Within: rpc.Unlimited}
	callReady    = rpc.Method[call, granted]{Name: "ready", By: rpc.Controller, Reply: rpc.LargeSize}
	callForecast = rpc.Method[call, waiting]{Name: "forecast", By: rpc.Controller}
	callList     = rpc.Method[call, handles]{Name: "list", By: rpc.Controller, Reply: rpc.LargeSize}
	callStatus   = rpc.Method[call, status]{Name: "status", By: rpc.Controller}
	callAlive    = rpc.Method[call, bool]{Name: "alive", By: rpc.Controller}
	callLaunch   = rpc.Method[call, rpc.None]{Name: "launch", By: rpc.Controller, Request: 2 * rpc.LargeSize}
	callEntrust  = rpc.Method[call, rpc.None]{Name: "entrust", By: rpc.Controller, Request: 2 * rpc.LargeSize}
	callCommit   = rpc.Method[call, rpc.None]{Name: "commit", By: rpc.Controller}
	callAttend   = rpc.Method[call, rpc.None]{Name: "attend", By: rpc.Controller}
	callDial     = rpc.Method[call, rpc.None]{Name: "dial", By: rpc.Controller}
	callStage    = rpc.Method[call, rpc.None]{Name: "stage", By: rpc.Controller, Within: rpc.Unlimited} // what is there is read first
	callFetch    = rpc.Method[call, rpc.None]{Name: "fetch", By: rpc.Controller}
	callYield    = rpc.Method[call, granted]{Name: "yield", By: rpc.Controller, Reply: rpc.LargeSize, Within: rpc.Unlimited}
	callInherit  = rpc.Method[call, rpc.None]{Name: "inherit", By: rpc.Controller, Within: rpc.Unlimited}
	callRelease  = rpc.Method[call, rpc.None]{Name: "release", By: rpc.Controller, Within: rpc.Unlimited}
	callImage    = rpc.Method[call, bool]{Name: "image", By: rpc.Controller}
	callMark     = rpc.Method[call, rpc.None]{Name: "mark", By: rpc.Controller} // makes a file, for others to see
	callSees     = rpc.Method[call, bool]{Name: "sees", By: rpc.Controller}
	callUnmark   = rpc.Method[call, rpc.None]{Name: "unmark", By: rpc.Controller}

	// The calls about a store of checkpoints, of this host or one that it sees.
	callStore        = rpc.Method[storeCall, rpc.None]{Name: "store", By: rpc.Controller, Request: 4 * rpc.LargeSize, Within: rpc.Unlimited}
	callStoreKeep    = rpc.Method[storeCall, opened]{Name: "store-keep", By: rpc.Controller, Reply: maxManifest, Within: rpc.Unlimited}                          // of a tree that comes over the stream
	callStoreRestore = rpc.Method[storeCall, opened]{Name: "store-restore", By: rpc.Controller, Request: maxManifest, Reply: maxManifest, Within: rpc.Unlimited} // to whom the stream leads

	callMeet  = rpc.Method[meetRequest, listening]{Name: "meet", By: rpc.Controller}   // see driver.Meeter
	callLanes = rpc.Method[lanesRequest, laneOffer]{Name: "lanes", By: rpc.Controller} // of the connection, that others will bring
	callLane  = rpc.Method[laneRequest, rpc.None]{Name: "lane", By: rpc.Controller}    // be one
)

// Bounds of messages and of what they hold.
const (
	// maxManifest is the most bytes of the manifest of a checkpoint in a message.
	maxManifest = 512 << 20
	maxNote     = 64 << 10 // a message about a transfer, in bytes
	maxText     = 16 << 10
	maxHosts    = 1 << 16
	maxHandles  = 1 << 16
	maxAddrs    = 64
	maxLimit    = time.Hour // of a meeting
)

func invalid(what string, value any) error {
	return &core.Error{Kind: core.Invalid, Op: "check", Object: what, Err: fmt.Errorf("%.200q is no valid value", fmt.Sprint(value))}
}

func checkTexts(what string, texts ...string) error {
	for _, text := range texts {
		if len(text) > maxText || strings.ContainsRune(text, 0) {
			return invalid(what, text)
		}
	}
	return nil
}

// Check implements the check of package rpc.
func (c call) Check() error {
	if c.Host < 0 || c.Host > maxHosts {
		return invalid("index of a host", c.Host)
	}
	return checkTexts("text of a call", c.Path, c.From, c.Image, c.Runtime, c.Via, c.Within, c.Seen)
}

// Check implements the check of package rpc.
func (f facts) Check() error {
	switch {
	case f.Slots < 0 || f.Facts.Hosts < 0:
		return invalid("number of hosts or cores", min(f.Slots, f.Facts.Hosts))
	case f.Notice < 0 || f.Preempted < 0 || f.Left < 0:
		return invalid("time of a site", min(f.Notice, f.Preempted, f.Left))
	case len(f.Detail) > 1000:
		return invalid("number of findings", len(f.Detail))
	}
	return checkTexts("finding", f.Reason, f.Remedy, f.Version, f.Arch)
}

// echoed is what has been written to a site and read from it.
type echoed []byte

// Check implements the check of package rpc. What it should be is known to who asked.
func (echoed) Check() error { return nil }

// runtimeName names a runtime that works.
type runtimeName string

// Check implements the check of package rpc.
func (n runtimeName) Check() error {
	if len(n) > 64 || strings.Trim(string(n), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return invalid("name of a runtime", n)
	}
	return nil
}

// Check implements the check of package rpc. What was asked for is known to the lease.
func (g granted) Check() error {
	if len(g.Hosts) > maxHosts {
		return invalid("number of hosts", len(g.Hosts))
	}
	for i, h := range g.Hosts {
		if h.Index != i {
			return invalid("index of a host", h.Index)
		}
		if h.Slots < 0 || len(h.Addrs) > maxAddrs {
			return invalid("cores or addresses of a host", h.Slots)
		}
		if err := checkTexts("host", h.Name, h.Arch, h.Dir, h.Cache); err != nil {
			return err
		}
		if h.Dir != "" && !path.IsAbs(h.Dir) {
			return invalid("directory of a host", h.Dir)
		}
	}
	if err := waiting(g.Waiting).Check(); err != nil {
		return err
	}
	return checkTexts("lease", g.Lost, g.Handle.Driver)
}

type waiting driver.Waiting

// Check implements the check of package rpc.
func (w waiting) Check() error { return checkTexts("reason", w.Reason) }

type handles []core.Handle

// Check implements the check of package rpc.
func (l handles) Check() error {
	if len(l) > maxHandles {
		return invalid("number of leases", len(l))
	}
	for _, h := range l {
		if h.Owner.Attempt < 0 {
			return invalid("attempt", h.Owner.Attempt)
		}
		if err := checkTexts("owner of a lease", h.Driver, h.Owner.User, h.Owner.Run); err != nil {
			return err
		}
	}
	return nil
}

type status driver.Status

// Check implements the check of package rpc.
func (s status) Check() error { return checkTexts("reason", s.Reason) }

// storeCall asks for something in a store of checkpoints.
type storeCall struct {
	// Store is a storeRequest.
	Store json.RawMessage `json:"store"`
	// Via is as in call.
	Via string `json:"via,omitempty"`
}

// Check implements the check of package rpc.
func (c storeCall) Check() error { return checkTexts("way", c.Via) }

// opened answers a call that goes on as a stream, or is answered at once.
type opened struct {
	Ready bool       `json:"ready,omitempty"` // the stream continues
	Reply storeReply `json:"reply"`
}

// ended is what the host says when the stream of a call has ended.
type ended struct {
	Failed rpc.Failure `json:"failed,omitzero"`
	Reply  storeReply  `json:"reply"`
}

// Check implements the check of package rpc.
func (e ended) Check() error { return e.Failed.Check() }

// meetRequest has a host take part in a meeting.
type meetRequest struct {
	Meeting driver.Meeting `json:"meeting"`
}

// Check implements the check of package rpc.
func (m meetRequest) Check() error {
	if m.Meeting.Name == "" || m.Meeting.Limit <= 0 || m.Meeting.Limit > maxLimit {
		return invalid("meeting", m.Meeting.Name)
	}
	return errors.Join(checkTexts("meeting", m.Meeting.Name), checkAddrs(m.Meeting.Addrs))
}

// listening tells where a host listens for another.
type listening struct {
	Addrs []string `json:"addrs"` // host:port
}

// Check implements the check of package rpc.
func (l listening) Check() error { return checkAddrs(l.Addrs) }

func checkAddrs(addrs []string) error {
	if len(addrs) > maxAddrs {
		return invalid("number of addresses", len(addrs))
	}
	for _, addr := range addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" || len(addr) > 300 {
			return invalid("address", addr)
		}
	}
	return nil
}

// met is how a meeting went.
type met struct {
	Addr   string      `json:"addr,omitempty"` // of the other end
	Failed rpc.Failure `json:"failed,omitzero"`
}

// Check implements the check of package rpc.
func (m met) Check() error {
	if (m.Failed == rpc.Failure{}) {
		return checkAddrs([]string{m.Addr})
	}
	return m.Failed.Check()
}

// sent is what the caller hears, over the stream of his call, of a tree that goes by
// another way.
type sent struct {
	Bytes  int64       `json:"bytes,omitempty"`
	Ended  bool        `json:"ended,omitempty"`
	Failed rpc.Failure `json:"failed,omitzero"`
}

// Check implements the check of package rpc.
func (s sent) Check() error {
	if s.Bytes < 0 {
		return invalid("number of bytes", s.Bytes)
	}
	return s.Failed.Check()
}

// lanesRequest says how many lanes a connection will get.
type lanesRequest struct {
	Number int `json:"number"`
}

// Check implements the check of package rpc.
func (r lanesRequest) Check() error {
	if r.Number < 1 || r.Number > wire.MaxLanes {
		return invalid("number of lanes", r.Number)
	}
	return nil
}

// laneRequest has an agent be a lane of another one, by what that has offered.
type laneRequest struct {
	Offer  laneOffer `json:"offer"`
	Number int       `json:"number"`
}

// Check implements the check of package rpc.
func (r laneRequest) Check() error {
	if r.Number < 0 || r.Number > wire.MaxLanes {
		return invalid("number of a lane", r.Number)
	}
	return r.Offer.Check()
}

// laneOffer is where an agent takes lanes, and the key by which those who bring them
// prove it: the name of the socket is known to all of the host.
type laneOffer struct {
	Path string   `json:"path"`
	Key  wire.Key `json:"key"`
}

// Check implements the check of package rpc: the name goes to the agents that log in
// after the first, on another host perhaps, and leads to nothing but such a socket.
func (o laneOffer) Check() error {
	if !strings.HasPrefix(o.Path, wire.HiddenPrefix) || len(o.Path) > 100 {
		return invalid("socket for lanes", o.Path)
	}
	if len(o.Key) != wire.KeySize {
		return invalid("size of a key", len(o.Key))
	}
	return nil
}
