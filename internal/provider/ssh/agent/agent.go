// Package agent is the far end of provider ssh: `bee remote` on a host, which has the provider of a single machine, or on
// a login node that of the cluster.
package agent

import (
	"context"
	"encoding/json"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/sshlink/storecall"
)

// Agent is what `bee remote` needs on a host: the provider to speak for there. The agent
// keeps no state; all of it is in the files of that provider.
type Agent struct {
	// Provider gives the provider that a call's site means. What the site's
	// settings say of the account's own variables is in account.
	Provider func(site json.RawMessage, account environ.Lookup) (driver.Provider, error)
	account  environ.Lookup
	// Store opens the store in a directory of this host.
	Store  func(dir string) driver.Store
	Upload storecall.UploadTree // nil: nothing does it
	// Download fetches a file from a server to this host; nil: nothing does.
	Download func(ctx context.Context, d driver.Download) (driver.Downloaded, error)
	// Volumes adds the calls about remotes of burst buffers; nil: there are none.
	Volumes    func(*rpc.Server)
	rendezvous *sshlink.RendezvousTable
}

// grant returns a lease as it stands.
func grant(ctx context.Context, l driver.Lease) (hostcall.Granted, error) {
	g := hostcall.Granted{Waiting: driver.Waiting{Ready: true}}
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

// Main is `bee remote`: it serves one controller over standard input and output, until that
// is gone.
func (a Agent) Main() int {
	a.account = environ.Enter()
	return sshlink.Serve(a.register)
}
