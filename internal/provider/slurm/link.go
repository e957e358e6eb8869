package slurm

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
)

// The calls of a host's agent.
const (
	callLaunch = "launch"
	callAlive  = "alive"
	callDial   = "dial"
	callEnd    = "end"
)

type hostCall struct {
	Argv   []string `json:"argv,omitempty"` // of a node; default: the agent's own binary's
	Config []byte   `json:"config,omitempty"`
	Path   string   `json:"path,omitempty"`
}

// connectTimeout is how long one address of an agent is tried.
const connectTimeout = 3 * time.Second

// connect speaks with a host's agent. Transient: it does not answer now.
func (l *lease) connect(ctx context.Context, host int) (*wire.Peer, error) {
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
		return wire.NewPeer(conn, true, t.Hosts[host].Name)
	}
	return nil, &core.Error{
		Kind: core.Transient, Op: "reach the agent on", Object: t.Hosts[host].Name, Err: errors.Join(errs...),
		Remedy: "Is the job still running (`squeue`)? The login node must be able to connect to the compute nodes by TCP.",
	}
}

// ask makes a call to a host's agent.
func (l *lease) ask(ctx context.Context, host int, method string, c hostCall, out any) error {
	peer, err := l.connect(ctx, host)
	if err != nil {
		return err
	}
	defer peer.Close()
	return transient(peer.Call(ctx, method, c, out))
}

// transient tells a line that broke from a host that says no.
func transient(err error) error {
	if core.IsKind(err, core.Lost) {
		return &core.Error{Kind: core.Transient, Err: err}
	}
	return err
}

// dialled is a stream with a connection of its own.
type dialled struct {
	*wire.Stream
	peer *wire.Peer
}

func (d *dialled) Close() error { return errors.Join(d.Stream.Close(), d.peer.Close()) }
