package sshlink

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// protocol is what a controller and the agents on its sites speak.
var protocol = rpc.Protocol{Name: "remote", Version: 2}

var (
	callRendezvous = rpc.Method[rendezvousRequest, listening]{Name: "meet", By: rpc.Controller} // see driver.Connector
	callPool       = rpc.Method[poolRequest, poolOffer]{Name: "lanes", By: rpc.Controller}      // of the connection, that others will bring
	callJoinPool   = rpc.Method[joinRequest, rpc.None]{Name: "lane", By: rpc.Controller}        // be one
)

// Bounds of what messages contain.
const (
	maxNote  = 64 << 10 // a message about a transfer, in bytes
	maxText  = 16 << 10
	MaxAddrs = 64        // of a host
	maxLimit = time.Hour // of a rendezvous
)

// Invalid returns the error of a value that no agent or controller of bee sends.
func Invalid(what string, value any) error {
	return &core.Error{Kind: core.Invalid, Op: "check", Object: what, Err: fmt.Errorf("%.200q is no valid value", fmt.Sprint(value)), Remedy: core.RemedyVersions}
}

// CheckTexts refuses texts of a message that are longer than one can be, or contain NUL.
func CheckTexts(what string, texts ...string) error {
	for _, text := range texts {
		if len(text) > maxText || strings.ContainsRune(text, 0) {
			return Invalid(what, text)
		}
	}
	return nil
}

// rendezvousRequest has a host take part in a rendezvous.
type rendezvousRequest struct {
	RendezvousSpec driver.RendezvousSpec `json:"meeting"`
}

// Check implements the check of package rpc.
func (m rendezvousRequest) Check() error {
	if m.RendezvousSpec.Name == "" || m.RendezvousSpec.Limit <= 0 || m.RendezvousSpec.Limit > maxLimit {
		return Invalid("rendezvous", m.RendezvousSpec.Name)
	}
	return errors.Join(CheckTexts("rendezvous", m.RendezvousSpec.Name), checkAddrs(m.RendezvousSpec.Addrs))
}

// listening reports where a host listens for another.
type listening struct {
	Addrs []string `json:"addrs"` // host:port
}

// Check implements the check of package rpc.
func (l listening) Check() error { return checkAddrs(l.Addrs) }

func checkAddrs(addrs []string) error {
	if len(addrs) > MaxAddrs {
		return Invalid("number of addresses", len(addrs))
	}
	for _, addr := range addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" || len(addr) > 300 {
			return Invalid("address", addr)
		}
	}
	return nil
}

// met is how a rendezvous went.
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
		return Invalid("number of bytes", s.Bytes)
	}
	return s.Failed.Check()
}

// poolRequest says how many connections a pool will get.
type poolRequest struct {
	Number int `json:"number"`
}

// Check implements the check of package rpc.
func (r poolRequest) Check() error {
	if r.Number < 1 || r.Number > wire.MaxPooled {
		return Invalid("number of connections", r.Number)
	}
	return nil
}

// joinRequest has an agent pass data to another one, by what that has offered.
type joinRequest struct {
	Offer  poolOffer `json:"offer"`
	Number int       `json:"number"`
}

// Check implements the check of package rpc.
func (r joinRequest) Check() error {
	if r.Number < 0 || r.Number > wire.MaxPooled {
		return Invalid("number of a connection", r.Number)
	}
	return r.Offer.Check()
}

// poolOffer is where an agent takes connections, and the key by which those who bring them
// prove it: the name of the socket is known to all of the host.
type poolOffer struct {
	Path string   `json:"path"`
	Key  wire.Key `json:"key"`
}

// Check implements the check of package rpc: the name goes to the agents that log in
// after the first, on another host perhaps, and leads to nothing but such a socket.
func (o poolOffer) Check() error {
	if !strings.HasPrefix(o.Path, wire.HiddenPrefix) || len(o.Path) > 100 {
		return Invalid("socket for connections", o.Path)
	}
	if len(o.Key) != wire.KeySize {
		return Invalid("size of a key", len(o.Key))
	}
	return nil
}
