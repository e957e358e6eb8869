package spec

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"
)

// rented are the keys that all sites with rented machines have.
type rented struct {
	types      []string
	image      string
	bastion    string
	sshFrom    []string
	boot, keep time.Duration
	placement  Placement
}

// Account names the account of the cloud that a site rents from, as far as the sites file does: all sites of one list the same
// things.
func (s Site) Account() string {
	switch {
	case s.AWS != nil:
		return fmt.Sprintf("aws %q %q", s.AWS.Profile, s.AWS.Region)
	case s.OpenStack != nil:
		return fmt.Sprintf("openstack %q %q", s.OpenStack.Cloud, s.OpenStack.Region)
	}
	return ""
}

// bastionName is the form of a host to log in to, perhaps with a user.
const bastionName = `^([A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`

// examples are how a site of each provider begins, and types of its machines.
var examples = map[string][2]string{
	"aws":       {"such as `aws: {types: [c7i.large], image: debian-12}`", "such as [c7i.large]"},
	"openstack": {"such as `openstack: {cloud: mine, types: [m1.large], image: debian-12}`", "such as [m1.large]"},
}

// rented finds what cannot be at a site with rented machines; r is nil where it has no mapping of its provider.
func (sc *siteCheck) rented(r *rented) {
	s, at := sc.site, sc.at
	example := examples[s.Provider]
	if s.Slot == 0 && sc.report.wasRead(at+".slot") {
		sc.report.at(at, "such as 2h: the machines end themselves some time after it", "%s: a site with rented machines needs a `slot`", at)
	}
	if r == nil {
		if sc.report.wasRead(at + "." + s.Provider) {
			sc.report.at(at, example[0], "%s: a site of provider %s needs `%s`", at, s.Provider, s.Provider)
		}
		return
	}
	at += "." + s.Provider
	if len(r.types) == 0 && sc.report.wasRead(at+".types") {
		sc.report.at(at, example[1], "%s: it needs `types`", at)
	}
	if r.image == "" && sc.report.wasRead(at+".image") {
		sc.report.at(at, "such as debian-12", "%s: it needs an `image`", at)
	}
	if r.bastion != "" && !fits("sites[]."+s.Provider+".network.bastion", r.bastion) {
		sc.report.at(at+".network.bastion", "such as me@gate.example.org; a port belongs in ~/.ssh/config", "%s.network.bastion: %q is no host", at, r.bastion)
	}
	for i, from := range r.sshFrom {
		if _, err := netip.ParsePrefix(from); err != nil {
			sc.report.at(fmt.Sprintf("%s.network.ssh_from[%d]", at, i), "such as 203.0.113.7/32", "%s.network.ssh_from: %q is no range of addresses", at, from)
		}
	}
	sc.placement(at+".placement", r.placement)
	sc.report.positive(at+".boot", r.boot, "5m")
	sc.report.positive(at+".keep", r.keep, "30m")
}

// later are keys of rented machines that this bee does not know yet.
var later = []string{
	"reservation", "shared", "efa", "keep_data", "guard_role",
	"infiniband", "disk",
}

// laterHint is the hint for a key of rented machines that this bee does not know yet, or "".
func laterHint(into reflect.Type, key string) string {
	switch into {
	case reflect.TypeFor[AWS](), reflect.TypeFor[OpenStack]():
		if key == "max_cost" {
			return "write it at the site, beside `price`"
		}
	}
	if into == reflect.TypeFor[OpenStackNetwork]() {
		switch key {
		case "vpc", "subnets":
			return "write the network's name or id as `name`"
		case "public":
			return "write which machines have addresses of the `pool` as `floating: head`, all or none"
		}
	}
	if !slices.Contains(later, key) {
		return ""
	}
	switch into {
	case reflect.TypeFor[AWS](), reflect.TypeFor[AWSNetwork]():
		return "leave it out: this bee rents machines on demand, with disks of their own, and cannot do that yet"
	case reflect.TypeFor[OpenStack](), reflect.TypeFor[OpenStackNetwork]():
		return "leave it out: this bee rents machines on demand, with the disks of their flavors, and cannot do that yet"
	}
	return ""
}
