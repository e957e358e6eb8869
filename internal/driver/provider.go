// Package driver holds the interfaces between BEE's control and the many ways
// to get hosts and to run containers on them. It holds no implementation;
// drivertest has one conformance suite per interface, which every driver
// passes with the real component behind it.
//
// Rules for all of them: every call takes a context; a destroying call is
// idempotent, so what is gone is success; no driver retries, logs, or knows
// another driver.
package driver

import (
	"context"
	"encoding/json"
	"io"
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
	// MapsUsers tells that processes in a runtime's containers can have other ids than
	// the caller's, whose they are outside.
	MapsUsers bool `json:"maps_users,omitempty"`
	// Unattended tells of a provider that its hosts come later, and that whoever asked for
	// them need not be there then: its leases are Unattended.
	Unattended bool `json:"unattended,omitempty"`
}

// Facts is what a probe found out.
type Facts struct {
	// Usable tells whether the driver can do its work here and now.
	Usable bool `json:"usable"`
	// Reason says in a sentence why it is not usable, or what limits it.
	Reason string `json:"reason,omitempty"`
	// Remedy says what the user, or the administrator, can do about it.
	Remedy string `json:"remedy,omitempty"`
	// Version is that of the component behind the driver.
	Version string `json:"version,omitempty"`
	// Detail holds further findings by name, for `bee doctor`.
	Detail map[string]string `json:"detail,omitempty"`
	// Slots is the number of cores that one host offers, 0 when unknown.
	Slots int `json:"slots,omitempty"`
	// Hosts is the number of hosts that can be had, 0 when unknown.
	Hosts int `json:"hosts,omitempty"`
	// Passing is set where what makes the site unusable may pass by itself.
	Passing bool `json:"passing,omitempty"`
	// Notice is how long what runs on the hosts has after the site has told it that it
	// takes them back early; 0: unknown.
	Notice time.Duration `json:"notice,omitempty"`
	// Preempted is the same where it does so as others come first; 0: they do not, or
	// unknown.
	Preempted time.Duration `json:"preempted,omitempty"`
	// Left is for how much longer the site leaves its user the hosts, where they were
	// granted before; 0: they are granted anew to each run.
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
}

// Request is what a run asks of a site.
type Request struct {
	Owner core.Owner
	// Nodes is the number of hosts wanted, at least 1.
	Nodes int
	// SlotsPerNode is the least number of cores on each; 0 means any.
	SlotsPerNode int
	// GPUs wanted on each host; -1 means all that it has.
	GPUs int
	// Binary is the path of the bee binary on this machine.
	Binary string
}

// Status is the state of a lease.
type Status struct {
	// Live is false once the hosts are gone or taken back.
	Live bool
	// Reason says why it is not live. Of a live one it says why its hosts stand
	// still, where the site has them do so: they do not answer then, and go on
	// later.
	Reason string
	// Ending tells that the site is about to take the hosts back, and may say only later why.
	Ending bool
	// Ends is when the site takes the hosts back, as it says now: later than Deadline where
	// it has had them stand still. Zero: as it said at first.
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
}

// LetGo ends this process's connections to a lease's hosts, where it keeps some, which
// makes it an io.Closer. Nothing there changes, and what is asked of it later connects
// anew. A nil Lease has none.
func LetGo(l Lease) {
	if c, is := l.(io.Closer); is {
		c.Close()
	}
}

// RuntimeTrier is what a provider of hosts that are there at once may offer
// further, and its leases.
type RuntimeTrier interface {
	// TryRuntime tries the runtime of that name on a host of the site, or for
	// "auto" all in order, and names the one that works and the host. An error
	// tells why none does. Both are empty where no host is at hand. A lease tries
	// all of its hosts, and names the first, or that where none works.
	TryRuntime(ctx context.Context, name string) (runtime, host string, err error)
}

// Echoer is what a provider may offer further: to bring something to the site and back.
type Echoer interface {
	// Echo writes data where the site has the files of runs and where it has images, reads
	// them from there, and returns them. It leaves nothing.
	Echo(ctx context.Context, data []byte) ([]byte, error)
}

// Forecaster is what a provider with a queue may offer further.
type Forecaster interface {
	// Forecast tells when the site would grant a request made now, without
	// making it, and the reason where that is not at once. Zero: it cannot say when.
	Forecast(ctx context.Context, r Request) (Waiting, error)
}

// FileKeeper is what a lease may offer whose site has a file system that its
// hosts share with others.
type FileKeeper interface {
	// KeepsFiles tells whether the lease's files outlive its hosts.
	KeepsFiles() bool
}

// Queued is what a lease may offer further whose hosts come later: the site
// has the request in its queue. Until Ready says so, there are no hosts.
type Queued interface {
	// Ready asks how the waiting stands; Hosts and Deadline are those of the
	// last call. Lost: the site has dropped the request, and says why; Missed is set
	// then where it had granted it.
	Ready(ctx context.Context) (Waiting, error)
}

// Waiting is how a lease in a queue stands.
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
	// Missed tells that the hosts were there, and were given back as nobody used them.
	Missed bool `json:"missed,omitempty"`
}

// Unattended is what a Queued lease may offer further: to have its nodes started
// as soon as its hosts are there, with whoever asked for them gone.
type Unattended interface {
	// Entrust leaves orders with the site, whole and on its disk, in place of
	// any that are not yet in force. Nothing comes of them before Commit.
	// Unsupported: the site cannot start anything by itself.
	Entrust(ctx context.Context, orders []byte) error
	// Commit puts the orders in force: the site has a Starter carry them out,
	// once at most, when the hosts are there, or at once if they are. From then
	// on only Release takes them back. Idempotent. NotFound: there are no orders.
	Commit(ctx context.Context) error
	// Attend leaves no orders: all that the nodes need has been brought, but whoever
	// asked for the hosts starts them himself. Where he does not do so soon after the
	// hosts are there, they are given back (Waiting.Missed). Idempotent. Unsupported:
	// as for Entrust.
	Attend(ctx context.Context) error
}

// Starter carries out the orders that were left with a site, on one of its
// hosts, over a lease that has all of them: it launches the nodes.
type Starter func(ctx context.Context, l Lease, orders []byte) error

// NodeChecker is what a lease may offer further: to tell whether a launched
// node's process still runs. Without it, a dead head is noticed by its silence.
type NodeChecker interface {
	NodeAlive(ctx context.Context, host int) (bool, error)
}

// ImageHolder is what a lease may offer further: to tell whether a host's
// image cache holds an image, so that it need not be sent again.
type ImageHolder interface {
	HasImage(ctx context.Context, host int, id string) (bool, error)
}

// Streams is what a lease has to offer further whose hosts' files are not on this
// machine: the near end of a copy, for who does not want it in a directory here.
type Streams interface {
	// Outgoing begins to send Remote: the caller writes what he knows of it (a
	// filestream.Basis), and reads the stream.
	Outgoing(ctx context.Context, t Transfer) (io.ReadWriteCloser, error)
	// Incoming begins to receive Remote: the caller reads what is known there
	// (filestream.ReadKnown), writes the stream, and asks for the outcome.
	Incoming(ctx context.Context, t Transfer) (Receiver, error)
}

// Receiver is the far end of a copy to a host.
type Receiver interface {
	io.ReadWriteCloser
	// Outcome tells, once all is written, whether it has arrived.
	Outcome() error
}

// StoreHost is what a lease may offer further whose hosts may see a directory
// themselves that is the store of a run's checkpoints, so that what they keep
// there need not travel.
type StoreHost interface {
	// Sees tells whether the head's host sees a path, and may write to it.
	Sees(ctx context.Context, path string) (bool, error)
	// Serve has it do what a store is asked for, in words that only both ends
	// understand (checkpoint.Serve).
	Serve(ctx context.Context, request json.RawMessage) (json.RawMessage, error)
}

// NodeCommand tells a lease to start one node.
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

// NodePlace is what a node has from its start, for one that was started before
// that was known: it reads it, as "place" in JSON, before its configuration.
type NodePlace struct {
	Log string   `json:"log"` // see NodeCommand
	Env []string `json:"env"` // KEY=VALUE, to be added
}

// Transfer is one copy between this machine and a host.
type Transfer struct {
	// Host is the index of the host.
	Host int
	// Local and Remote are absolute paths.
	Local, Remote string
	// Again is for what travels time and again, between directories of ours: beside
	// both is kept what tells the next time what has changed, and beside Local what
	// has been fetched when the way breaks. Before is then, for Fetch, a directory
	// with an earlier copy, or "". What is at home already need not travel.
	Again  bool
	Before string
	// Via, for Streams, names the meeting over whose connection the stream goes, in
	// place of this machine (Meeter).
	Via string
	// Progress, if not nil, is told the bytes copied so far.
	Progress func(done int64)
}
