package driver

import (
	"context"
	"io"
	"time"
)

// Capability groups: what only some drivers can do. Each has an accessor on Provider or
// Lease, which returns nil where the driver cannot.

// SiteQueue is the queue of a site, asked before any request is made. A site without one, whose
// hosts runs of its user share, may have it, too: its hosts are there at once, or in use by
// other runs until nobody knows when.
type SiteQueue interface {
	// Forecast returns when the site would grant a request made now, without making it,
	// and the reason where that is not at once. Zero: not known.
	Forecast(ctx context.Context, r Request) (Waiting, error)
}

// LeaseQueue is the queue in which a lease waits: until Ready reports them, there are no
// hosts.
type LeaseQueue interface {
	// Ready returns the state of the wait; Hosts and Deadline are those of the last call.
	// Lost: the site has dropped the request, for the reason in the error; Missed is set
	// then where it had granted it.
	Ready(ctx context.Context) (Waiting, error)
}

// Waiting is the state of a lease in a queue.
type Waiting struct {
	// Ready is true once the hosts are there.
	Ready bool `json:"ready"`
	// Reason says in plain words what the site waits for.
	Reason string `json:"reason,omitempty"`
	// Expected is when the site means to grant it; zero when it does not say.
	Expected time.Time `json:"expected,omitzero"`
	// Since is when the hosts that are Ready were granted, by the site's clock;
	// zero: just now.
	Since time.Time `json:"since,omitzero"`
	// Billed is since when the hosts cost, ready or not, by the site's clock; zero: not yet, or from when they are Ready.
	Billed time.Time `json:"billed,omitzero"`
	// Missed means that the hosts were there, and were released as nobody used them.
	Missed bool `json:"missed,omitempty"`
	// Allocation, of hosts that are Ready, is the number by which further leases use them as
	// well (spec.Slurm.Job); "": none can.
	Allocation string `json:"allocation,omitempty"`
}

// Autostart starts the nodes of a lease in a queue as soon as its hosts are there, with no
// controller connected.
type Autostart interface {
	// StageSpec stores a launch spec on the site, whole and on its disk, in place of
	// any that is not enabled yet. Nothing comes of it before EnableSpec.
	// Unsupported: the site cannot start anything by itself.
	StageSpec(ctx context.Context, launchSpec []byte) error
	// EnableSpec enables the launch spec: the site has a Starter carry it out,
	// once at most, when the hosts are there, or at once if they are. From then
	// on only Release cancels it. Idempotent. NotFound: there is no launch spec.
	EnableSpec(ctx context.Context) error
	// Attend stores no launch spec: all that the nodes need has been staged, but the
	// controller starts them. Where it does not do so soon after the hosts are there,
	// they are released (Waiting.Missed). Idempotent. Unsupported: as for StageSpec.
	Attend(ctx context.Context) error
}

// Fencer is that of a lease whose site can prove that nothing computes there any more, also where no host answers.
type Fencer interface {
	// Fence stops the hosts, and returns once the site reports that each has stopped. Their files stay until Release.
	// Idempotent.
	Fence(ctx context.Context) error
}

// Starter executes the launch spec that was stored on a site, on one of its
// hosts, over a lease that has all of them: it launches the nodes.
type Starter func(ctx context.Context, l Lease, launchSpec []byte) error

// Downloader is that of a lease whose head's host is not this machine: it fetches files of servers
// by itself, where it reaches them.
type Downloader interface {
	// Download fetches a file to the head's host. A DownloadError: the host has tried, and
	// cannot; what is wrong may be at that site alone.
	Download(ctx context.Context, d Download) (Downloaded, error)
}

// Download is a file of a server.
type Download struct {
	// URL may carry the right to read the file: it is recorded nowhere. Name is for messages.
	URL    string `json:"url"`
	Name   string `json:"name"`
	Signed bool   `json:"signed,omitempty"` // by its bucket
	// SHA256 is its digest, and Tag the version of an object; "": not known.
	SHA256 string `json:"sha256,omitempty"`
	Tag    string `json:"tag,omitempty"`
	// Dir is the run's directory on the host. Below it, Part is a path in a directory of its
	// own, for what has come until then, and Remote that of the whole file.
	Dir    string `json:"dir"`
	Part   string `json:"part"`
	Remote string `json:"remote"`
	// Progress, if not nil, is called with the bytes until now.
	Progress func(done int64) `json:"-"`
}

// Downloaded is what a host says that it has fetched.
type Downloaded struct {
	Size int64  `json:"size"`
	Tag  string `json:"tag,omitempty"`
}

// DownloadError is the error of a host that could not fetch a file.
type DownloadError struct{ Err error }

func (e DownloadError) Error() string { return e.Err.Error() }

func (e DownloadError) Unwrap() error { return e.Err }

// Connector is a machine with an agent, which the agent of another machine may reach: a lease
// with DirectTransfer, or a store of checkpoints.
type Connector interface {
	// Machine names the one on which the agent is.
	Machine() string
	// Rendezvous has the agent listen for another one, or connect to it, once. The end
	// of ctx, or of the connection to the agent, is also that of the rendezvous.
	Rendezvous(ctx context.Context, m RendezvousSpec) (End, error)
}

// RendezvousSpec is what one end of a rendezvous has to know.
type RendezvousSpec struct {
	// Name is what transfers that use it call it by: see Transfer.Via.
	Name string `json:"name"`
	// Addrs are the ip:port at which the other end listens; none: this one shall.
	Addrs []string `json:"addrs,omitempty"`
	// CA, Cert and Key are PEM, and of this one rendezvous.
	CA   []byte `json:"ca"`
	Cert []byte `json:"cert"`
	Key  []byte `json:"key"`
	// Limit is how long it tries.
	Limit time.Duration `json:"limit"`
}

// End is one end of a rendezvous.
type End interface {
	// Addrs are those at which it listens.
	Addrs() []string
	// Met waits for the other end, and returns its address. Unsupported: they do not
	// reach each other.
	Met() (string, error)
	// Close ends the rendezvous, and what goes over it.
	Close() error
}

// DirectTransfer is that of a lease whose hosts' files are not on this machine: streams of
// trees, which pass through this machine, or go directly from one site to another.
type DirectTransfer interface {
	Connector
	// Outgoing begins to send Remote: the caller writes what it has of it (a
	// treesync.Basis), and reads the stream.
	Outgoing(ctx context.Context, t Transfer) (io.ReadWriteCloser, error)
	// Incoming begins to receive Remote: the caller reads what is known there
	// (treesync.ReadKnown), writes the stream, and asks for the outcome.
	Incoming(ctx context.Context, t Transfer) (Receiver, error)
	// Pass sends t.Remote over the connection of the rendezvous t.Via to who receives it
	// at the other end of that, and returns when it has arrived. cut ends the rendezvous.
	Pass(ctx context.Context, t Transfer, to Receiver, cut func()) error
	// Upload has the head's host store the data of its tree as the objects of a checkpoint of a site, and returns the
	// manifest, as an Upload.
	Upload(ctx context.Context, tree string, g Generation, site string, sign SignObject) (manifest []byte, err error)
}

// Receiver is the far end of a copy to a host.
type Receiver interface {
	io.ReadWriteCloser
	// Outcome reports, once all is written, whether it has arrived.
	Outcome() error
}

// VolumeReuse hands the files of a lease whose nodes have ended to the next lease of the
// run on the same machine, or lets leases of other runs copy them.
type VolumeReuse interface {
	// LendVolume releases the hosts, for which others wait. What is on the head's stays until
	// Release, where Hosts then says: out of the way of another lease of the run.
	// Idempotent.
	LendVolume(ctx context.Context) error
	// ReuseVolume makes the tree from, of an earlier lease that has yielded, the tree to of
	// this one. It is moved, so that it takes no time and no space. Idempotent.
	ReuseVolume(ctx context.Context, from, to string) error
	// Look reports what t.Remote is, in a volume that the lease has lent. The errors are those
	// of Fetch.
	Look(ctx context.Context, t Transfer) (Lent, error)
	// CopyTree copies t.Remote, of an earlier lease on the machine that has lent its volume, to
	// a path of this one. What is there stays as it is, and gets the files that it lacks. At
	// the path via the copy is made. Idempotent.
	CopyTree(ctx context.Context, t Transfer, via, to string) error
}

// Lent is a file or directory in a lent volume.
type Lent struct {
	Dir   bool  `json:"dir,omitempty"`
	Bytes int64 `json:"bytes"`
}

// StoreAccess uses the store of a run's checkpoints from the head's host, where that sees the
// store's directory: then no checkpoint travels.
type StoreAccess interface {
	// Sees reports whether the head's host sees a path, and may write to it.
	Sees(ctx context.Context, path string) (bool, error)
	// Keep is Checkpoints.Keep of a tree on that host, for the run's directory in the
	// store.
	Keep(ctx context.Context, dir string, g Generation, site, tree string) (m Manifest, made bool, err error)
	// Restore is Checkpoints.Restore to a tree on that host.
	Restore(ctx context.Context, dir string, k Checkpoint, tree string) error
}
