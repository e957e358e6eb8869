package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// Agent is what `bee remote` needs on a host: the provider to speak for there. The agent
// keeps no state; all of it is in the files of that provider.
type Agent struct {
	// Provider gives the provider that a call's site (Settings.Site) means. What the site's
	// settings say of the account's own variables is in account.
	Provider func(site json.RawMessage, account environ.Lookup) (driver.Provider, error)
	account  environ.Lookup
	// Store opens the store in a directory of this host.
	Store func(dir string) driver.Store
	// Download fetches a file from a server to this host; nil: nothing does.
	Download func(ctx context.Context, d driver.Download) (driver.Downloaded, error)
	// Volumes adds the calls about remotes of burst buffers; nil: there are none.
	Volumes    func(*rpc.Server)
	rendezvous *sshlink.RendezvousTable
}

type call struct {
	Site    json.RawMessage `json:"site"`
	Owner   core.Owner      `json:"owner"`
	Request driver.Request  `json:"request"`
	Handle  core.Handle     `json:"handle"`
	Host    int             `json:"host"`           // index in the agent's lease
	Path    string          `json:"path,omitempty"` // socket, log, or file
	From    string          `json:"from,omitempty"` // what is moved to Path
	Within  string          `json:"within,omitempty"`
	Seen    string          `json:"seen,omitempty"` // as in driver.Transfer
	Image   string          `json:"image,omitempty"`
	Runtime string          `json:"runtime,omitempty"`
	Config  []byte          `json:"config,omitempty"`
	// Directories are those that a job mounts.
	Directories []driver.Directory `json:"directories,omitempty"`
	// Via names a rendezvous over whose connection a tree goes, in place of the call's stream.
	Via string `json:"via,omitempty"`
	// Download is a file of a server.
	Download *driver.Download `json:"download,omitempty"`
}

// granted is an agent's lease as it stands.
type granted struct {
	Handle   core.Handle    `json:"handle"`
	Hosts    []core.Host    `json:"hosts"`
	Deadline time.Time      `json:"deadline,omitzero"`
	Waiting  driver.Waiting `json:"waiting"`
	// Lost says why the site has dropped it; what it left may still be there.
	Lost string `json:"lost,omitempty"`
}

// matches refuses what is not the lease that was asked for: of an owner, with so many hosts.
// before are the hosts, and the deadline, of an earlier answer.
func (g *granted) matches(o core.Owner, asked int, before []core.Host, deadline time.Time) error {
	switch {
	case g.Handle.Owner != o:
		return &core.Error{Kind: core.Lost, Op: "check", Object: "lease of " + o.String(), Err: fmt.Errorf("its owner is %q", core.Printable(g.Handle.Owner.String(), 80))}
	case g.Waiting.Ready && len(g.Hosts) != asked:
		return &core.Error{Kind: core.Lost, Op: "check", Object: "lease of " + o.String(), Err: fmt.Errorf("number of hosts is %d, expected %d", len(g.Hosts), asked)}
	case !core.IsMoment(g.Waiting.Expected) || !core.IsMoment(g.Waiting.Since):
		return &core.Error{Kind: core.Lost, Op: "check", Object: "lease of " + o.String(), Err: errors.New("its times are none of today's")}
	}
	if err := core.CheckHosts(g.Hosts, asked, before); err != nil {
		return err
	}
	return core.CheckDeadline(g.Deadline, deadline)
}

func grant(ctx context.Context, l driver.Lease) (granted, error) {
	g := granted{Waiting: driver.Waiting{Ready: true}}
	if q := l.Queue(); q != nil {
		var err error
		if g.Waiting, err = q.Ready(ctx); core.IsKind(err, core.Lost) {
			g.Lost = err.Error()
		} else if err != nil {
			return g, err
		}
	}
	g.Handle, g.Hosts, g.Deadline = l.Handle(), l.Hosts(), l.Deadline()
	return g, nil
}

type facts struct {
	driver.Facts
	Arch string `json:"arch"`
}

// Main is `bee remote`: it serves one controller over standard input and output, until that
// is gone.
func (a Agent) Main() int {
	a.account = environ.Enter()
	return sshlink.Serve(a.register)
}
