// Package openstack is the provider of machines that are rented from an OpenStack cloud. It
// translates between package cloud, which has all that rented machines have in common, and the
// calls of Keystone, Nova, Neutron and Glance, and keeps no state of its own.
//
// What Nova and Neutron lack is made up for here. Nova has no token: the name of the servers
// is the request's. A security group and floating addresses carry their owner in the description. A server group and a
// lease have the name of the security group.
package openstack

import (
	"time"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// Driver is the name of the provider.
const Driver = "openstack"

// Which machines get a floating address. Those without one are reached through the head.
const (
	FloatingHead = "head"
	FloatingAll  = "all"
	FloatingNone = "none"
)

// Kinds of leases.
const (
	LeaseHost     = "host"
	LeaseInstance = "instance"
	LeaseFlavor   = "flavor"
)

// Lease is a lease of Blazar that grants the machines.
type Lease struct {
	// Name is that of the user's own, which is used and never ended; "": each run has one.
	Name string
	// Kind is one of LeaseHost, LeaseInstance and LeaseFlavor, and Properties are those of the hosts.
	Kind       string
	Properties map[string]string
	// Start is when it starts; zero: now.
	Start time.Time
}

// Settings of a site.
type Settings struct {
	// Name is that of the cloud in clouds.yaml; "": that of OS_CLOUD, or the OS_* variables.
	Name string
	// Region is the region to use; "": that of the credentials.
	Region string
	// Types are flavors in order of preference, and Zones availability zones; none: Nova's choice.
	Types, Zones []string
	// Image is a name or an id. User is its login user; "": that of the image.
	Image, User string
	// Network is a name or an id; "": the only one that the project has.
	Network string
	// Floating is one of FloatingHead, FloatingAll and FloatingNone.
	Floating string
	// Pool is the network that floating addresses are of; "": the only external one.
	Pool string
	// SSHFrom are the ranges of addresses that ssh is let in from; none: this machine's address.
	SSHFrom []string
	// Tags are added to the metadata of each machine.
	Tags map[string]string
	// Lease is what grants the machines; nil: they are rented at once.
	Lease *Lease
	// Cloud is what is the same in each cloud.
	Cloud cloud.Settings
}

// New returns the provider of a site.
func New(s Settings) (driver.Provider, error) {
	c := s.Cloud.WithDefaults()
	c.Driver, c.Summary, c.Untried = Driver, "OpenStack", "a real OpenStack cloud"
	if s.Name != "" {
		c.Summary += " " + s.Name
	}
	c.Late, c.PowersOff = listedLate, true
	s.Cloud = c
	a := &account{client: newClient(s.Name, s.Region), s: s}
	c.From = origin{a}.from
	return cloud.New(c, a)
}

// account implements cloud.API.
type account struct {
	*client
	s Settings
}
