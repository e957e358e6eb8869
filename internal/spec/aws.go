package spec

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"
)

// AWS is what a site of provider aws rents.
type AWS struct {
	Profile string   `yaml:"profile"`
	Region  string   `yaml:"region"`
	Zones   []string `yaml:"zones"`
	// Types of machines in order of preference.
	Types []string `yaml:"types"`
	// Image is a name of a distribution, such as debian-12, or an id, whose login user is
	// User.
	Image   string     `yaml:"image"`
	User    string     `yaml:"user"`
	Network AWSNetwork `yaml:"network"`
	// Disk is the size of the first disk; 0: the image's.
	Disk Size              `yaml:"disk"`
	Tags map[string]string `yaml:"tags"`
	// Boot is how long a machine may take until it answers, and Keep how much longer
	// than the slot it lives; 0: the provider's own.
	Boot time.Duration `yaml:"boot"`
	Keep time.Duration `yaml:"keep"`
}

// AWSNetwork is where rented machines are.
type AWSNetwork struct {
	Subnets []string `yaml:"subnets"`
	// SSHFrom are the ranges of addresses that ssh is let in from; none: this machine's.
	SSHFrom []string `yaml:"ssh_from"`
}

// Forms of texts that EC2 takes.
const (
	imageName = `^(debian-[0-9]+|ubuntu-[0-9]+\.[0-9]+|al2023|ami-[A-Za-z0-9-]+)$`
	tagName   = `^[A-Za-z0-9 +=._:/@-]{1,128}$`
	ownTag    = "bee:"
)

// later are keys of rented machines that this bee does not know yet.
var later = []string{ //nolint:gochecknoglobals // a constant
	"market", "max_price", "reservation", "placement", "shared", "max_cost", "efa", "keep_data", "guard_role", "vpc", "public", "bastion",
}

// laterHint is the hint for a key of rented machines that this bee does not know yet, or "".
func laterHint(into reflect.Type, key string) string {
	if (into == reflect.TypeFor[AWS]() || into == reflect.TypeFor[AWSNetwork]()) && slices.Contains(later, key) {
		return "leave it out: this bee rents machines on demand, with public addresses and disks of their own, and cannot do that yet"
	}
	return ""
}

// checkAWS finds what cannot be at a site of provider aws.
func (d *decoder) checkAWS(s *Site, at string) {
	if s.Provider != "aws" {
		return
	}
	if s.Slot == 0 && d.wasRead(at+".slot") {
		d.at(at, "such as 2h: the machines end themselves some time after it", "%s: a site with rented machines needs a `slot`", at)
	}
	a := s.AWS
	if a == nil {
		if d.wasRead(at + ".aws") {
			d.at(at, "such as `aws: {types: [c7i.large], image: debian-12}`", "%s: a site of provider aws needs `aws`", at)
		}
		return
	}
	at += ".aws"
	if len(a.Types) == 0 && d.wasRead(at+".types") {
		d.at(at, "such as [c7i.large]", "%s: it needs `types`", at)
	}
	if a.Image == "" && d.wasRead(at+".image") {
		d.at(at, "such as debian-12", "%s: it needs an `image`", at)
	}
	if a.Image != "" && !fits("sites[].aws.image", a.Image) {
		d.at(at+".image", "debian-12, ubuntu-24.04, al2023 or ami-…", "%s.image: %q is no image", at, a.Image)
	}
	if strings.HasPrefix(a.Image, "ami-") && a.User == "" && d.wasRead(at+".user") {
		d.at(at+".image", "such as `user: admin`", "%s: an image by its id needs its login `user`", at)
	}
	for i, from := range a.Network.SSHFrom {
		if _, err := netip.ParsePrefix(from); err != nil {
			d.at(fmt.Sprintf("%s.network.ssh_from[%d]", at, i), "such as 203.0.113.7/32", "%s.network.ssh_from: %q is no range of addresses", at, from)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.Tags)) {
		if !fits("sites[].aws.tags", key) || strings.HasPrefix(key, ownTag) || strings.HasPrefix(key, "aws:") {
			d.atKey(at+".tags", "", "%s.tags: %q cannot be the name of a tag", at, key)
		}
	}
	d.positive(at+".boot", a.Boot, "5m")
	d.positive(at+".keep", a.Keep, "30m")
}
