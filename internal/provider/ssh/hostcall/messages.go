package hostcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// Call is a call to an agent about a site, or about a lease on it.
type Call struct {
	Site    json.RawMessage `json:"site"`
	Owner   core.Owner      `json:"owner"`
	Request driver.Request  `json:"request"`
	Handle  core.Handle     `json:"handle"`
	Host    int             `json:"host"`           // index in the agent's lease
	Path    string          `json:"path,omitempty"` // socket, log, or file
	From    string          `json:"from,omitempty"` // what is moved to Path
	Part    string          `json:"part,omitempty"` // where a copy is made, before it is at Path
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
	// Adopter is to be recorded as who controls the run, in place of Instead.
	Adopter driver.Adopter `json:"adopter,omitzero"`
	Instead string         `json:"instead,omitempty"`
	// Buffer is a burst buffer. Reported is whether the user knows what others have changed on its remote.
	Buffer   driver.BurstBuffer `json:"buffer,omitzero"`
	Reported bool               `json:"reported,omitempty"`
	// Study is to have the host alone.
	Study driver.Study `json:"study,omitzero"`
}

// Granted is an agent's lease as it stands.
type Granted struct {
	Handle   core.Handle    `json:"handle"`
	Hosts    []core.Host    `json:"hosts"`
	Deadline time.Time      `json:"deadline,omitzero"`
	Waiting  driver.Waiting `json:"waiting"`
	// Lost says why the site has dropped it; what it left may still be there.
	Lost string `json:"lost,omitempty"`
}

// Matches refuses what is not the lease that was asked for: of an owner, with so many hosts.
// before are the hosts, and the deadline, of an earlier answer.
func (g *Granted) Matches(o core.Owner, asked int, before []core.Host, deadline time.Time) error {
	switch {
	case g.Handle.Owner != o:
		return &core.Error{Kind: core.Lost, Op: "check", Object: "lease of " + o.String(), Err: fmt.Errorf("its owner is %q", core.Printable(g.Handle.Owner.String(), 80)), Remedy: core.RemedyVersions}
	case g.Waiting.Ready && len(g.Hosts) != asked:
		return &core.Error{Kind: core.Lost, Op: "check", Object: "lease of " + o.String(), Err: fmt.Errorf("number of hosts is %d, expected %d", len(g.Hosts), asked), Remedy: core.RemedyVersions}
	case !core.IsMoment(g.Waiting.Expected) || !core.IsMoment(g.Waiting.Since):
		return &core.Error{Kind: core.Lost, Op: "check", Object: "lease of " + o.String(), Err: errors.New("its times are none of today's"), Remedy: "Set the clock of the host."}
	}
	if err := core.CheckHosts(g.Hosts, asked, before); err != nil {
		return err
	}
	return core.CheckDeadline(g.Deadline, deadline)
}

// Facts is what a site has, as its agent found it.
type Facts struct {
	driver.Facts
	Arch string `json:"arch"`
}

// mostDownload bounds the size of a file, in bytes, whatever a host says.
const mostDownload = 1 << 50

// Download is how far a host is with a file, or what has become of that.
type Download struct {
	Done    int64             `json:"done,omitempty"`
	Over    bool              `json:"over,omitempty"`
	Got     driver.Downloaded `json:"got"`
	Failure rpc.Failure       `json:"failure"`
}

// Check implements the check of package rpc.
func (d Download) Check() error {
	if d.Done < 0 || d.Done > mostDownload || d.Got.Size < 0 || d.Got.Size > mostDownload {
		return sshlink.Invalid("size of a file", max(d.Done, d.Got.Size))
	}
	if err := d.Failure.Check(); err != nil {
		return err
	}
	return sshlink.CheckTexts("version of a file", d.Got.Tag)
}
