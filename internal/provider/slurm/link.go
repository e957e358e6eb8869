package slurm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// protocol is what a login node and the agents of a job speak.
var protocol = rpc.Protocol{Name: "slurm-host", Version: 2}

// The calls of a host's agent.
var (
	callLaunch = rpc.Method[launchRequest, rpc.None]{Name: "launch", By: rpc.Controller, Request: 2 * rpc.LargeSize}
	callAlive  = rpc.Method[rpc.None, bool]{Name: "alive", By: rpc.Controller}
	callDial   = rpc.Method[dialRequest, rpc.None]{Name: "dial", By: rpc.Controller}
	callEnd    = rpc.Method[rpc.None, rpc.None]{Name: "end", By: rpc.Controller}
)

// launchRequest has an agent start its node.
type launchRequest struct {
	Argv   []string `json:"argv,omitempty"` // default: the agent's own binary's
	Config []byte   `json:"config"`
	Log    string   `json:"log"`
}

// Check implements the check of package rpc.
func (r launchRequest) Check() error {
	if slices.ContainsFunc(r.Argv, hasNUL) || len(r.Argv) > 0 && r.Argv[0] == "" {
		return invalid("command of a node", r.Argv)
	}
	return checkPath(r.Log)
}

// dialRequest asks for a connection with a unix socket.
type dialRequest struct {
	Path string `json:"path"`
}

// Check implements the check of package rpc.
func (r dialRequest) Check() error { return checkPath(r.Path) }

func hasNUL(text string) bool { return strings.ContainsRune(text, 0) }

func checkPath(path string) error {
	if !filepath.IsAbs(path) || hasNUL(path) {
		return invalid("path", path)
	}
	return nil
}

func invalid(what string, value any) error {
	return &core.Error{Kind: core.Invalid, Op: "check", Object: what, Err: fmt.Errorf("%.200q is no valid value", fmt.Sprint(value)), Remedy: core.RemedyVersions}
}

// connectTimeout is how long one address of an agent is tried.
const connectTimeout = 3 * time.Second

// connect speaks with a host's agent. Transient: it does not answer now.
func (l *lease) connect(ctx context.Context, host int) (*rpc.Peer, error) {
	t, err := l.check("reach host", host)
	if err != nil {
		return nil, err
	}
	var k keys
	if err := readJSON(filepath.Join(l.dir, keysName), &k); err != nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "reach host", Object: t.Hosts[host].Name, Err: err}
	}
	identity, err := wire.NewIdentity(k.CA, k.ClientCert, k.ClientKey)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, addr := range t.Agents[host] {
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: connectTimeout}, Config: identity.Client(agentName)}
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return rpc.Dial(conn, t.Hosts[host].Name, wire.Prompt, protocol)
	}
	return nil, &core.Error{
		Kind: core.Transient, Op: "reach the agent on", Object: t.Hosts[host].Name, Err: errors.Join(errs...),
		Remedy: "Is the job still running (`squeue`)? The login node must be able to connect to the compute nodes by TCP.",
	}
}

// ask makes a call to a host's agent.
func ask[Req, Resp any](ctx context.Context, l *lease, host int, m rpc.Method[Req, Resp], r Req) (Resp, error) {
	peer, err := l.connect(ctx, host)
	if err != nil {
		var none Resp
		return none, err
	}
	defer peer.Close()
	reply, err := rpc.Call(ctx, peer, m, r)
	return reply, transient(err)
}

// transient distinguishes a line that broke from a host that says no.
func transient(err error) error {
	if core.IsKind(err, core.Lost) {
		return &core.Error{Kind: core.Transient, Err: err}
	}
	return err
}

// dialled is a stream with a connection of its own.
type dialled struct {
	*rpc.Stream
	peer *rpc.Peer
}

func (d *dialled) Close() error { return errors.Join(d.Stream.Close(), d.peer.Close()) }
