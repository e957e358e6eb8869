// Package cloud holds what providers of rented machines have in common: offers tried in
// order, requests recorded before they are made, machines that come all or not at all, tags,
// keys, the start script, the machines' own expiry, and the sweep of what is left. It is a
// library, not a driver: a provider of one cloud translates its calls (API).
//
// A machine that answers is a host behind ssh, whose provider comes from the catalog (Reach).
// The package knows neither that provider nor any cloud.
package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// API is one account of a cloud. Its calls retry what passes by itself. Errors have a kind;
// a capacity error is one of ErrNoCapacity.
type API interface {
	// Check finds out whether an offer could be used now, without renting anything: the
	// credentials, the rights and the quotas.
	Check(ctx context.Context, o Offer) error
	// Offers returns the machines that the site's settings name, in order of preference.
	Offers(ctx context.Context) ([]Offer, error)
	// Types returns an offer for each zone of the types whose names match patterns, as far as the cloud describes them: without
	// an image and a network. Where a type may be rented as a spot machine, there is an offer of that, too.
	Types(ctx context.Context, patterns []string) ([]Offer, error)
	// Prices asks the cloud for the prices of offers, and returns those that are known, by the offer's String; nil: the
	// cloud has no price list. An error may come with some of them.
	Prices(ctx context.Context, offers []Offer) (map[string]driver.Price, error)
	// Launch rents machines: all of them, or none. It is idempotent in Order.Token: a
	// repeated call returns the machines of the first. An error that is
	// core.Transient leaves open whether there are machines; any other means that there are none.
	Launch(ctx context.Context, o Order) ([]Machine, error)
	// Launched returns the machines of a token, also those that have ended not long ago. The cloud may
	// list new ones late.
	Launched(ctx context.Context, token string) ([]Machine, error)
	// Owned returns the machines with an owner's tags, as Launched. Their addresses may be those in their network.
	Owned(ctx context.Context, q core.Owner) ([]Machine, error)
	// WhyEnded returns why a machine has stopped or ended of which the lists have no reason, also once it is not listed any
	// more; "": not known.
	WhyEnded(ctx context.Context, id string) (core.HostsEnd, error)
	// Console returns the end of what a machine wrote to its console, as far as the
	// cloud has it.
	Console(ctx context.Context, id string) (string, error)
	// Stop has machines stop, and returns before they have. Those that have stopped, or are gone, are no error.
	Stop(ctx context.Context, ids []string) error
	// End ends machines for good, with their disks. Machines that are gone are no error.
	End(ctx context.Context, ids []string) error
	// MakeGroup makes the group that shields the machines: everything is open among its members,
	// ssh to the given ranges of addresses, and nothing else. Where it has a placement, what places the machines is made,
	// too. MakeGroup is idempotent in name. It returns the group with the ids that it has, also with an error. One of
	// ErrNoPlacement means that the machines cannot be placed so.
	MakeGroup(ctx context.Context, g Group) (Group, error)
	// Admit has a group admit ssh from further ranges of addresses. Those that it admits are no error.
	Admit(ctx context.Context, group string, from []string) error
	// Groups returns the groups with an owner's tags.
	Groups(ctx context.Context, q core.Owner) ([]Group, error)
	// EndGroup removes a group, and before it what was made with it: what places its machines, and a reservation. One that
	// is gone is no error. Busy: machines still use it.
	EndGroup(ctx context.Context, g Group) error
	// Others returns everything else with an owner's tags that costs. Of a query for a whole installation, that is also
	// what bee has made for an owner that is not known any more: it has none. Unsupported: these credentials may not list it.
	Others(ctx context.Context, q core.Owner) ([]driver.Rented, error)
	// EndOther ends one of Others. One that is gone, or ends with a machine, is no error. Busy: something uses it.
	EndOther(ctx context.Context, o driver.Rented) error
	// Reservations returns what grants the site's machines from a start to an end; nil: they are rented at once.
	Reservations() Reservations
	// Images returns where the account keeps images that its machines boot.
	Images() Images
}

// Reservations grants machines of an account from a start to an end.
type Reservations interface {
	// Reserve makes the reservation of an order whose group is there, for as long as the machines live, or returns the
	// one that there is. It is idempotent in Order.Token. An error is as that of API.Launch.
	Reserve(ctx context.Context, o Order, life time.Duration) (Reservation, error)
	// Reserved returns a reservation. NotFound: it is gone.
	Reserved(ctx context.Context, id string) (Reservation, error)
	// Extend has a reservation end later, and returns it as it is then. Busy: others have the machines from its end on.
	// Unsupported: it is the user's own, or it can be no longer.
	Extend(ctx context.Context, id string, end time.Time) (Reservation, error)
}

// Reservation is a number of machines that are granted from a start to an end. The cloud ends them then.
type Reservation struct {
	ID         string
	Start, End time.Time
	// Active reports whether machines can be launched into it.
	Active bool
	// Over is why it grants nothing any more; "": it does, or will. Ended is the same as the end of its hosts.
	Over  string
	Ended core.HostsEnd
}

// Offer is a kind of machine in one place of a cloud.
type Offer struct {
	Type string `json:"type"`
	// Flavor is the cloud's id of the type, where that is not its name.
	Flavor string `json:"flavor,omitempty"`
	// Spot means that the cloud may take the machines back, with a notice.
	Spot bool `json:"spot,omitempty"`
	// Zone is where the machines are; "": where the cloud likes.
	Zone string `json:"zone"`
	// Image is the cloud's id of the image that the machines boot, and User its login user.
	Image string `json:"image"`
	User  string `json:"user"`
	// Foreign means that another installation of bee has pushed that image.
	Foreign bool `json:"-"`
	// Arch is the GOARCH of the machines.
	Arch   string `json:"arch"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memory"`
	GPUs   int    `json:"gpus,omitempty"`
	// Storage is the size of its disk in GiB, where the type has one.
	Storage int64 `json:"storage,omitempty"`
	// Network and Subnet are the cloud's ids of where the machines are.
	Network string `json:"network,omitempty"`
	Subnet  string `json:"subnet,omitempty"`
	// Disk is the name of the image's first disk.
	Disk string `json:"disk,omitempty"`
	// Others are the names of its other disks, which end with the machine as well.
	Others []string `json:"others,omitempty"`
	// Price is that of an hour of a machine, where the cloud was asked for it.
	Price *driver.Price `json:"price,omitempty"`
	// Together and Apart are how many machines of it can be placed as Cluster and as Spread; 0: none.
	Together int `json:"-"`
	Apart    int `json:"-"`
	// Placement is how its machines are placed. The cloud's own offers have none.
	Placement Placement `json:"placement,omitzero"`
}

// String names an offer in messages.
func (o Offer) String() string {
	name := o.Type
	if o.Spot {
		name = "spot " + name
	}
	if o.Zone != "" {
		name += " in " + o.Zone
	}
	if o.Placement.Kind != "" {
		name += " as " + string(o.Placement.Kind)
	}
	return name
}

// Order is a request for machines.
type Order struct {
	Offer Offer
	Owner core.Owner
	// Token makes the request idempotent.
	Token string
	Nodes int
	// Script is what each machine runs at its first boot.
	Script string
	// Group is the id of the group that they are in, and PlacementGroup of what places them, or "".
	Group, PlacementGroup string
	// Reservation is the id of the reservation that they are granted by, or "".
	Reservation string
	// Expires is when the machines end themselves, for their tags.
	Expires time.Time
}

// Group is a group that shields machines.
type Group struct {
	ID   string
	Name string
	// Network is where it is.
	Network string
	Owner   core.Owner
	// From are the ranges of addresses from which ssh is let in.
	From []string
	// Placement is how its machines are placed, and PlacementGroup is the id of what does that, or "".
	Placement      Placement
	PlacementGroup string
	// Made is when it was made; zero: not known.
	Made time.Time
}

// Machine is a rented machine as its cloud describes it.
type Machine struct {
	ID    string
	Index int // among those of its launch
	State State
	// Reason is why it is in this state, in the cloud's words, or "".
	Reason string
	// End is why it has stopped or ended, or is about to, where the cloud knows.
	End core.HostsEnd
	// Address is where ssh reaches it; "" where it has none yet.
	Address string
	// Jump is where ssh reaches the first machine, through which it reaches Address; "": directly.
	Jump  string
	Owner core.Owner
	// Type and Zone are as in Offer, Made is when it was rented, and Expires when it ends itself, as far as they are known.
	Type, Zone    string
	Spot          bool
	Made, Expires time.Time
}

// State is how a machine stands.
type State int

// States of machines.
const (
	Pending State = iota // it boots, as far as the cloud knows
	Running
	Failed   // an operation on it has failed: whether it computes is not known
	Stopping // it is about to stop
	Stopped  // it does not compute, and has its disk
	Ending   // it is about to end
	Ended
)

// String names the state.
func (s State) String() string {
	return [...]string{"pending", "running", "failed", "stopping", "stopped", "ending", "ended"}[s]
}

// ErrNoCapacity is the cause of errors of an offer that the cloud cannot serve now: the next one may do.
var ErrNoCapacity = errors.New("no capacity")

// Connection is how ssh reaches the machines of a lease.
type Connection struct {
	// User is the login user, and Addresses are the machines'.
	User      string
	Addresses []string
	// Jump is another address of the first machine, through which all are reached; "": they are reached directly.
	Jump string
	// Key and KnownHosts are files of the lease.
	Key, KnownHosts string
}

// Hosts returns the machines as ssh understands them.
func (c Connection) Hosts() []string {
	hosts := make([]string, len(c.Addresses))
	for i, a := range c.Addresses {
		hosts[i] = c.User + "@" + a
	}
	return hosts
}

// Reach is how machines that answer are reached. The catalog makes it.
type Reach struct {
	// Provider returns the provider of the machines.
	Provider func(c Connection) (driver.Provider, error)
	// Output runs a command on one machine and returns what that writes.
	Output func(ctx context.Context, c Connection, address, command string) (string, error)
	// Moved returns the handle of a lease of that provider whose machines have other addresses now, in the same order.
	Moved func(inner core.Handle, c Connection) (core.Handle, error)
}

// Settings of a site with rented machines.
type Settings struct {
	// Driver names the provider, such as aws, and Summary describes the site in a line. Untried is as in driver.Info.
	Driver, Summary, Untried string
	Name                     string // of the site
	// Installation is this one's id; "": not known, and nothing is pushed.
	Installation string
	// Dir is where the site's leases are recorded, on the submitting machine.
	Dir string
	// Machine is that machine's name, where others share Dir; else "".
	Machine string
	// Slot is how long an attempt may take. Boot is how long a machine may take until it answers, and
	// Keep how much longer than the slot it lives.
	Slot, Boot, Keep time.Duration
	// Bastion is the host, [user@]host, through which this machine reaches machines without a public address; "": they are
	// reached directly.
	Bastion string
	// From are the ranges of addresses that ssh is let in from, found out once they are needed.
	From  func(ctx context.Context) ([]string, error)
	Reach Reach
	// Placement is how the machines of a job with several are placed.
	Placement Placement
	// Notice are commands of a POSIX shell, run by root on the machines, that print what the cloud announces of the
	// machine, each as a line with a time in seconds since 1970: "notice" and when it is taken back, "maintenance" and
	// when it is stopped, "rebalance" and since when the cloud recommends to leave it. NoticeTime is how long before its
	// end a spot machine gets its notice.
	Notice     string
	NoticeTime time.Duration
	// Priced reports that the cloud is asked for prices. Capped reports that the cost of a run is limited by them: then
	// offers whose price is not known are no offers.
	Priced, Capped bool
	// Limited reports that what a run costs is limited: a reservation is made no longer than it was.
	Limited bool
	// Lists is what providers of one process share; nil: nothing. Account names what Lists has a list of; "": lists by owner
	// do not have the addresses by which ssh reaches machines, and are not shared.
	Lists   *Lists
	Account string
	// PowersOff means that a machine which has powered itself off costs until a call ends it, and StopsFree that one which
	// has stopped costs nothing.
	PowersOff, StopsFree bool
	// LeastBilled is how long a machine costs at least.
	LeastBilled time.Duration
	// Late bounds how long after their launch the cloud may list machines late; 0: half an hour.
	Late time.Duration
	// Settle is the time between two looks, both of which have to miss an object that is
	// gone; 0: a few seconds.
	Settle time.Duration
}
