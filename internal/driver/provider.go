// Package driver holds the interfaces between BEE's control and the many ways
// to get hosts and to run containers on them. It holds no implementation;
// drivertest has one conformance suite per interface, which every driver
// passes with the real component behind it.
//
// Rules for all of them: every call takes a context; a destroying call is
// idempotent, so what is gone is success; no driver retries, logs, or knows
// another driver. What only some drivers can do is a capability group: see groups.go.
package driver

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Info names a driver.
type Info struct {
	// Name is the word that Beefiles and sites files use.
	Name string `json:"name"`
	// Summary is one line for people.
	Summary string `json:"summary"`
	// MapsUsers means that processes in a runtime's containers can have other ids than
	// the caller's, whose they are outside.
	MapsUsers bool `json:"maps_users,omitempty"`
	// OwnDevices means of a runtime that its containers have those devices of the host that
	// ContainerSpec names, beside the usual ones. Others have the host's /dev.
	OwnDevices bool `json:"-"`
	// OwnMounts means of a runtime that its containers have what is mounted in namespaces of the caller's own.
	// Others have the mounts of the host, or of a daemon.
	OwnMounts bool `json:"-"`
	// OwnLimits means of a runtime that limits of resources in its containers are not those of
	// the caller.
	OwnLimits bool `json:"-"`
	// HostPrograms means of a runtime that it starts programs that the host has installed: the
	// environment and the user of the image do not count.
	HostPrograms bool `json:"-"`
	// Unattended means of a provider that its hosts come later, and that the process that asked for
	// them need not be there then: its leases have Autostart.
	Unattended bool `json:"unattended,omitempty"`
	// Downloads reports that the leases of this provider have Downloads.
	Downloads bool `json:"-"`
	// Untried is the component, such as "a real VirtualBox", that the driver was never run with; "": it was.
	Untried string `json:"-"`
	// Billing is what the price of a host is counted for.
	Billing core.Billing `json:"-"`
}

// Facts is what a probe found out.
type Facts struct {
	// Usable reports whether the driver can do its work here and now.
	Usable bool `json:"usable"`
	// Reason says in a sentence why it is not usable, or what limits it.
	Reason string `json:"reason,omitempty"`
	// Remedy says what the user, or the administrator, can do about it.
	Remedy string `json:"remedy,omitempty"`
	// Warning says in a sentence what a user has to know of hosts that are had here; "": nothing.
	Warning string `json:"warning,omitempty"`
	// Version is that of the component behind the driver.
	Version string `json:"version,omitempty"`
	// Detail holds further findings by name, for `bee doctor`.
	Detail map[string]string `json:"detail,omitempty"`
	// Slots is the number of cores that one host offers, 0 when unknown.
	Slots int `json:"slots,omitempty"`
	// Hosts is the number of hosts that can be had, 0 when unknown.
	Hosts int `json:"hosts,omitempty"`
	// BurstNeeds is what has to be done before hosts can mount burst buffers; "": nothing, or it is not known.
	BurstNeeds string `json:"burst_needs,omitempty"`
	// Passing is set where what makes the site unusable may pass by itself.
	Passing bool `json:"passing,omitempty"`
	// Notice is how long what runs on the hosts has after the site has reported it that it
	// takes them back early; 0: unknown.
	Notice time.Duration `json:"notice,omitempty"`
	// Preempted is the same where it does so as others come first; 0: they do not, or
	// unknown.
	Preempted time.Duration `json:"preempted,omitempty"`
	// Price is that of a host by the site's price list; nil: there is no list, it is not to be asked, or NoPrice is why
	// the price is not known.
	Price   *Price `json:"-"`
	NoPrice string `json:"-"`
	// Placement is how the site places the hosts of a job with several, cluster or spread, or as it likes where it cannot;
	// "": always so. PlacementRequired means that it takes no such job else.
	Placement         string `json:"placement,omitempty"`
	PlacementRequired bool   `json:"placement_required,omitempty"`
	// Left is for how much longer the site leaves its user the hosts, where they were
	// granted before; 0: they are granted again to each run.
	Left time.Duration `json:"left,omitempty"`
}

// Provider gets hosts for runs on one site. A provider value is bound to its
// site's settings when the catalog makes it.
type Provider interface {
	Info() Info
	// Probe finds out whether the site can be used now. It changes nothing.
	Probe(ctx context.Context) (Facts, error)
	// Acquire gets hosts. It is idempotent in Request.Owner: a second call
	// for the same owner returns the lease of the first, if that still lives.
	Acquire(ctx context.Context, r Request) (Lease, error)
	// Recover gives the live lease of a handle; NotFound when it is gone.
	Recover(ctx context.Context, h core.Handle) (Lease, error)
	// List gives everything of the owner's that exists on the site, also
	// what was created by an Acquire that never returned.
	List(ctx context.Context, q core.Owner) ([]core.Handle, error)
	// Echo writes data where the site has the files of runs and where it has images, reads
	// them from there, and returns them. It leaves nothing. ErrNoHosts: the site has no files
	// before there are hosts.
	Echo(ctx context.Context, data []byte) ([]byte, error)
	// TryRuntime tries the runtime of that name on a host of the site, or for "auto" all
	// in order, and names the one that works and the host. An error has the reason why
	// none does. runtime is "" where no host is at hand, host also where it is this machine.
	TryRuntime(ctx context.Context, name string) (runtime, host string, err error)
	// Directories finds directories of the site that a job mounts, before any hosts are
	// asked for: on the login node, or on the first host. Variables in their paths are those
	// of the account there; the paths that it returns have none. Unsupported: one is not
	// there, is no directory, or the user may not do with it what is wanted.
	Directories(ctx context.Context, wanted []Directory) (paths []string, err error)
	// Queue returns the site's queue; nil: its hosts are there at once.
	Queue() SiteQueue
	// Foreign returns what checks leases of other installations; nil: other machines cannot
	// continue leases of this site.
	Foreign() ForeignLeases
	// HostLocks returns what locks the site's hosts for a study; nil: its hosts are others for each run.
	HostLocks() HostLocks
	// BurstBuffers returns what finds burst buffers that attempts have left on the site; nil: its hosts keep none.
	BurstBuffers() BurstBuffers
	// Inventory returns what lists the things that the site's cloud has; nil: nothing is rented there.
	Inventory() Inventory
}

// ErrNoHosts is what Echo of a site returns that has nothing before hosts are rented for a run.
var ErrNoHosts = errors.New("the site has no hosts before they are rented")

// Directory is a directory of a site that a job mounts.
type Directory struct {
	// Path is absolute once its variables are replaced.
	Path string `json:"path"`
	// Write is set where the job may change what is in it.
	Write bool `json:"write,omitempty"`
}

// Request is what a run asks of a site.
type Request struct {
	Owner core.Owner
	// Nodes is the number of hosts wanted, at least 1.
	Nodes int
	// SlotsPerNode is the least number of cores on each; 0 means any.
	SlotsPerNode int
	// Memory is the least on each, in bytes; 0 means any.
	Memory int64
	// GPUs wanted on each host; -1 means all that it has.
	GPUs int
	// RDMA means that each host needs a usable RDMA device: the function PCI of a card for
	// its guest or, where that is "", one for containers.
	RDMA bool
	PCI  string
	// Interruptible means that the site may take the hosts back at any moment: the run continues from its checkpoint, or begins again.
	Interruptible bool
	// Binary is the path of the bee binary on this machine.
	Binary string
	// Submitted is when the run was, for its turn among the user's runs that wait for hosts
	// without a queue; zero: no place is kept for it.
	Submitted time.Time
	// KeepPlace keeps a place on a host that has room, too: others lack it.
	KeepPlace bool
}

// Status is the state of a lease.
type Status struct {
	// Live is false once the hosts are gone or taken back.
	Live bool
	// Reason says why it is not live. Of a live one it says why its hosts are
	// halted, where the site does so: they do not answer then, and continue
	// later.
	Reason string
	// End is why the hosts of a lease are gone that is not live, where the site knows.
	End core.HostsEnd
	// Ending means that the site is about to take the hosts back, and may say only later why.
	Ending bool
	// Ends is when the site takes the hosts back, as it says now: later than Deadline where
	// it has halted them. Zero: as it reported at first.
	Ends time.Time
}

// Lease is what a site granted: hosts until a deadline.
type Lease interface {
	Handle() core.Handle
	// Hosts in order of index. Their Dir exists, is empty at first, private
	// to the user, and is removed by Release.
	Hosts() []core.Host
	// Deadline is when the site takes the hosts back; zero means never.
	Deadline() time.Time
	// Price is that of each host by the site's price list, as in Facts; nil: not known.
	Price() *Price
	Status(ctx context.Context) (Status, error)
	// Launch starts a `bee node` on a host, detached from this process, and
	// returns when it has been started. A node that dies leaves nothing
	// running, and Release ends it.
	Launch(ctx context.Context, c NodeCommand) error
	// Dial connects to a unix socket (absolute path) on a host. NotFound: the
	// host answers, but nothing listens there. Transient: no way to the host.
	Dial(ctx context.Context, host int, socket string) (net.Conn, error)
	// Stage copies Local (file or directory, like `cp -a Local Remote`, where
	// Remote becomes the copy itself) to a host. Parents are created.
	Stage(ctx context.Context, t Transfer) error
	// Fetch copies Remote on the host to Local. Whatever is at Local is
	// replaced only by a whole file. NotFound when Remote is not there.
	Fetch(ctx context.Context, t Transfer) error
	// Release ends every node of the lease, gives the hosts back and removes
	// each host's Dir. Idempotent.
	Release(ctx context.Context) error
	// Disconnect ends this process's connections to the hosts. Nothing there changes, and
	// a later call connects again.
	Disconnect()
	// NodeAlive reports whether the process of a launched node still runs.
	NodeAlive(ctx context.Context, host int) (bool, error)
	// HasImage reports whether a host's image cache holds an image, so that it need not
	// be sent again.
	HasImage(ctx context.Context, host int, id string) (bool, error)
	// TryRuntime is Provider.TryRuntime on all hosts of the lease: it names the first, or
	// that where none works.
	TryRuntime(ctx context.Context, name string) (runtime, host string, err error)
	// Matches reports whether a tree on the head's host has the content of a manifest.
	Matches(ctx context.Context, tree string, m Manifest) (bool, error)
	// KeepsFiles reports whether the lease's files are known to outlive its hosts, on a
	// file system that these share with others.
	KeepsFiles() bool

	// Queue, Autostart, DirectTransfer, VolumeReuse, StoreAccess, Downloads, Fencer and Adopters
	// return a capability group of the lease, nil where it has none.
	Queue() LeaseQueue
	Autostart() Autostart
	DirectTransfer() DirectTransfer
	VolumeReuse() VolumeReuse
	StoreAccess() StoreAccess
	Downloads() Downloader
	Fencer() Fencer
	Adopters() Adopters
}

// NodeCommand reports to a lease to start one node.
type NodeCommand struct {
	// Host is the index of the host.
	Host int
	// Config is given to `bee node` on its standard input, which is then
	// closed. It holds keys and secrets: it must not touch a command line,
	// an environment or a world-readable file.
	Config []byte
	// Log is the absolute path on the host of the file to which what the node
	// writes is added. Its directory is made.
	Log string
}

// Transfer is one copy between this machine and a host.
type Transfer struct {
	// Host is the index of the host.
	Host int
	// Local and Remote are absolute paths.
	Local, Remote string
	// Within, for Fetch, is the directory on the host that Remote is in and that a job
	// has filled; "": nobody but BEE has. Links in Remote, its last element included, are
	// followed inside Within. Seen is the path at which the job knows that directory.
	// Invalid where a link leads out of it, or to nothing.
	Within, Seen string
	// Again is for what travels time and again, between directories of ours: beside
	// both is kept what reports the next time what has changed, and beside Local what
	// has been fetched when the way breaks. Before is then, for Fetch, a directory
	// with an earlier copy, or "". What is on the submitting machine already need not travel.
	Again  bool
	Before string
	// Via, for Streams, names the rendezvous over whose connection the stream goes, in
	// place of this machine (Connector).
	Via string
	// Progress, if not nil, is given the bytes copied so far.
	Progress func(done int64)
}
