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
	// Image is a name or an id, whose login user is User; "": that of the image.
	Image   string            `yaml:"image"`
	User    string            `yaml:"user"`
	Network OpenStackNetwork  `yaml:"network"`
	Tags    map[string]string `yaml:"tags"`
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
	// Pool is the network of these addresses; "": the only external one.
	Pool string `yaml:"pool"`
	// SSHFrom are the ranges of addresses that ssh is let in from; none: this machine's.
	SSHFrom []string `yaml:"ssh_from"`
}

const (
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
	sc.rented(&rented{o.Types, o.Image, o.Network.SSHFrom, o.Boot, o.Keep})
	at += ".openstack"
	sc.report.oneOf(at+".network.floating", o.Network.Floating)
	if o.Network.Pool != "" && o.Network.Floating == "none" {
		sc.report.atKey(at+".network.pool", "leave it out, or use `floating: head`", "%s.network.pool: without floating addresses it has no meaning", at)
	}
	for _, key := range slices.Sorted(maps.Keys(o.Tags)) {
		if !fits("sites[].openstack.tags", key) || strings.HasPrefix(key, ownTag) || len(o.Tags[key]) > mostMetadata {
			sc.report.atKey(at+".tags", "", "%s.tags: %q cannot be a tag", at, key)
		}
	}
}
