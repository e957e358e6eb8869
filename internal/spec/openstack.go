package spec

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// OpenStack is what a site of provider openstack rents.
type OpenStack struct {
	// Cloud is the name in clouds.yaml; "": that of OS_CLOUD, or the OS_* variables.
	Cloud  string   `yaml:"cloud"`
	Region string   `yaml:"region"`
	Zones  []string `yaml:"zones"`
	// Types are flavors in order of preference.
	Types []string `yaml:"types"`
	// Image is a name or an id, or one of bee's own, such as bee:hpc. Its login user is User; "": that of the image.
	Image   string            `yaml:"image"`
	User    string            `yaml:"user"`
	Network OpenStackNetwork  `yaml:"network"`
	Tags    map[string]string `yaml:"tags"`
	// Placement is how the machines are placed; by default as PlacementNone.
	Placement Placement `yaml:"placement" json:",omitzero"`
	// Lease is the Blazar lease that grants the machines; nil: they are rented at once.
	Lease *OpenStackLease `yaml:"lease"`
	// Boot is how long a machine may take until it answers, and Keep how much longer
	// than the slot it lives; 0: the provider's own.
	Boot time.Duration `yaml:"boot"`
	Keep time.Duration `yaml:"keep"`
}

// OpenStackNetwork is where rented machines are.
type OpenStackNetwork struct {
	// Name is a name or an id; "": the project's only network.
	Name string `yaml:"name"`
	// Floating is which machines get a floating address: head, all or none.
	Floating string `yaml:"floating"`
	// Bastion is the host, [user@]host, through which the machines are reached, none of which has a floating address.
	Bastion string `yaml:"bastion" json:",omitempty"`
	// Pool is the network of these addresses; "": the only external one.
	Pool string `yaml:"pool"`
	// SSHFrom are the ranges of addresses that ssh is let in from; none: this machine's.
	SSHFrom []string `yaml:"ssh_from"`
}

// OpenStackLease is a lease of Blazar.
type OpenStackLease struct {
	// Name is that of a lease of the user's, which is used and not ended; "": each run has one of its own.
	Name string `yaml:"name"`
	// Kind is what is reserved: host, instance or flavor; "": host.
	Kind string `yaml:"kind"`
	// NodeType is the property node_type of the hosts, and Properties are further ones.
	NodeType   string            `yaml:"node_type"`
	Properties map[string]string `yaml:"properties"`
	// Start is now or a time in UTC, such as 2026-12-01 08:00; "": now.
	Start string `yaml:"start"`
}

const (
	leaseStart     = "2006-01-02 15:04"
	leaseStartNow  = "now"
	leaseStartForm = `^(now|[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2})$`
	leaseProperty  = `^[A-Za-z0-9_.:-]+$`
)

// StartTime returns when the lease starts; zero: now.
func (l OpenStackLease) StartTime() (time.Time, error) {
	if l.Start == "" || l.Start == leaseStartNow {
		return time.Time{}, nil
	}
	return time.Parse(leaseStart, l.Start)
}

// lease finds what cannot be in the lease of a site.
func (sc *siteCheck) lease(o *OpenStack, at string) {
	l := o.Lease
	if l == nil {
		return
	}
	if len(o.Zones) > 0 {
		sc.report.atKey(at+".zones", "leave it out: the lease decides which hosts there are", "%s.zones: with a `lease` it has no meaning", at)
	}
	if o.Placement.Kind != "" && o.Placement.Kind != PlacementNone {
		sc.report.atKey(at+".placement", "leave it out: the lease decides which hosts there are", "%s.placement: with a `lease` it has no meaning", at)
	}
	at += ".lease"
	sc.report.oneOf(at+".kind", l.Kind)
	if _, err := l.StartTime(); err != nil || l.Start != "" && !fits("sites[].openstack.lease.start", l.Start) {
		sc.report.at(at+".start", "now, or a time in UTC such as 2026-12-01 08:00", "%s.start: %q is no time", at, l.Start)
	}
	for _, key := range slices.Sorted(maps.Keys(l.Properties)) {
		if !fits("sites[].openstack.lease.properties", key) || strings.ContainsAny(l.Properties[key], "\"\\\n") {
			sc.report.atKey(at+".properties", "", "%s.properties: %q cannot be a property", at, key)
		}
	}
	properties := l.NodeType != "" || len(l.Properties) > 0
	switch {
	case l.Name != "" && (properties || l.Kind != "" || l.Start != ""):
		sc.report.at(at, "leave the other keys out: a lease of yours has them", "%s: `name` is of a lease that there is", at)
	case properties && l.Kind == "flavor":
		sc.report.at(at, "leave them out, or use `kind: host` or `kind: instance`", "%s: a flavor is reserved without properties", at)
	}
}

const (
	// openStackImage is the form of a name or an id of an image: those of bee's own have one.
	openStackImage = `^(bee:[a-z0-9][a-z0-9._-]{0,62}|([^b]|b[^e]|be[^e]|bee[^:]).*|b|be|bee)$`
	// metadataName is the form of a name of Nova's metadata.
	metadataName = `^[A-Za-z0-9_.: -]{1,255}$`
	// mostMetadata is how long a value of it may be.
	mostMetadata = 255
)

// openStack finds what cannot be at a site of provider openstack.
func (sc *siteCheck) openStack() {
	s, at := sc.site, sc.at
	if s.Provider != "openstack" {
		return
	}
	o := s.OpenStack
	if o == nil {
		sc.rented(nil)
		return
	}
	sc.rented(&rented{o.Types, o.Image, o.Network.Bastion, o.Network.SSHFrom, o.Boot, o.Keep, o.Placement})
	at += ".openstack"
	if o.Image != "" && !fits("sites[].openstack.image", o.Image) {
		sc.report.at(at+".image", "such as bee:hpc, as `bee cloud image ls` has it", "%s.image: %q is no name of an image of bee's", at, o.Image)
	}
	sc.report.oneOf(at+".network.floating", o.Network.Floating)
	switch floating := o.Network.Floating; {
	case o.Network.Bastion != "" && floating != "" && floating != "none":
		sc.report.atKey(at+".network.floating", "leave it out: the bastion reaches the machines by their own addresses", "%s.network.floating: with a `bastion` it has no meaning", at)
	case o.Network.Pool != "" && (o.Network.Bastion != "" || floating == "none"):
		sc.report.atKey(at+".network.pool", "leave it out, or use `floating: head`", "%s.network.pool: without floating addresses it has no meaning", at)
	}
	sc.lease(o, at)
	for _, key := range slices.Sorted(maps.Keys(o.Tags)) {
		if !fits("sites[].openstack.tags", key) || strings.HasPrefix(key, ownTag) || len(o.Tags[key]) > mostMetadata {
			sc.report.atKey(at+".tags", "", "%s.tags: %q cannot be a tag", at, key)
		}
	}
}
