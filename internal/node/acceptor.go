package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// acceptor accepts connections to this node. Each socket is for one kind of caller.
type acceptor struct {
	config   plan.Config
	log      *slog.Logger
	identity *wire.Identity
	server   *rpc.Server
	links    *links
	verbs    *verbs
}

// acceptControl serves the controller and `bee exec`, which have the attempt's key, as
// this node has it.
func (a *acceptor) acceptControl(ctx context.Context, l net.Listener) {
	g := wire.Gate{Failed: a.logRefused}
	g.Serve(l, func(c net.Conn, known func() bool) {
		secure, err := wire.Key(a.config.Shared).Server(ctx, c, plan.NodeName(a.config.Rank), plan.ControllerName)
		if err != nil || !known() {
			a.refused(ctx, "the controller's socket", err)
			return
		}
		peer, err := rpc.NewPeer(secure, false, "the controller", wire.Local, nodecall.Protocol)
		if err != nil {
			secure.Close()
			return
		}
		a.serve(ctx, peer, rpc.Caller{Role: rpc.Controller, Rank: -1})
	})
}

// mostAgents is how many launch agents are served at a time.
const mostAgents = 4096

// acceptAgents serves the launch agents in this node's container or guest. Anyone who runs
// there can come.
func (a *acceptor) acceptAgents(ctx context.Context, l net.Listener) {
	g := wire.Gate{Most: mostAgents, Failed: a.logRefused}
	g.Serve(l, func(c net.Conn, known func() bool) {
		if !known() {
			return
		}
		peer, err := rpc.NewPeer(c, false, "a launch agent", wire.Local, nodecall.Protocol)
		if err != nil {
			c.Close()
			return
		}
		a.serve(ctx, peer, rpc.Caller{Role: rpc.LaunchAgent, Rank: -1})
	})
}

// refused logs a connection that was refused. One that only broke is not worth a line: a
// node may have got through by another address, and a flood of them would fill the log.
func (a *acceptor) refused(ctx context.Context, from string, err error) {
	level := slog.LevelWarn
	if _, broken := errors.AsType[*net.OpError](err); broken || errors.Is(err, io.EOF) {
		level = slog.LevelDebug
	}
	a.log.Log(ctx, level, "refused a connection", "from", from, "err", err)
}

// acceptPeers serves the other nodes of the attempt, and nobody else.
func (a *acceptor) acceptPeers(ctx context.Context, l net.Listener) {
	g := wire.Gate{Failed: a.logRefused}
	g.Serve(l, func(c net.Conn, known func() bool) {
		if err := a.acceptPeer(ctx, c, known); err != nil {
			c.Close()
			a.refused(ctx, c.RemoteAddr().String(), err)
		}
	})
}

// logRefused reports connections that could not be accepted.
func (a *acceptor) logRefused(err error) { a.log.Warn("accept a connection", "err", err) }

func (a *acceptor) acceptPeer(ctx context.Context, c net.Conn, known func() bool) error {
	secure := a.identity.SecureServer(c, slices.Concat(purposesOf(forFabric), purposesOf(forClear), []string{forControl, forData, forVerbs})...)
	shake, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(shake); err != nil {
		return err
	}
	if !known() {
		return net.ErrClosed
	}
	name, err := wire.PeerName(secure.Conn)
	if err != nil {
		return err
	}
	rank, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || rank < 0 || rank >= a.config.Size || plan.NodeName(rank) != name {
		return fmt.Errorf("the certificate is of %q, which is no node of this attempt", name)
	}
	purpose := secure.ConnectionState().NegotiatedProtocol
	for _, kind := range []string{forFabric, forClear} {
		if slot := slices.Index(purposesOf(kind), purpose); slot >= 0 {
			return a.links.accept(shake, secure, rank, slot, kind == forClear)
		}
	}
	if purpose == forVerbs {
		return a.verbs.accept(ctx, secure, rank)
	}
	liveness := wire.Tolerant
	if purpose == forControl {
		liveness = wire.Prompt
	}
	peer, err := rpc.NewPeer(secure.Conn, false, name, liveness, nodecall.Protocol)
	if err != nil {
		return err
	}
	a.serve(ctx, peer, nodeOf(rank))
	return nil
}

func (a *acceptor) serve(ctx context.Context, peer *rpc.Peer, from rpc.Caller) {
	defer peer.Close()
	if err := peer.Serve(ctx, a.server, from); !core.IsKind(err, core.Lost) { // the end of a connection is no error here
		a.log.Warn("refused a connection", "caller", from.Role.String(), "rank", from.Rank, "err", err)
	}
}
