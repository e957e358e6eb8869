package spec

import (
	"maps"
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

// aws finds what cannot be at a site of provider aws.
func (sc *siteCheck) aws() {
	s, at := sc.site, sc.at
	if s.Provider != "aws" {
		return
	}
	a := s.AWS
	if a == nil {
		sc.rented(nil)
		return
	}
	sc.rented(&rented{a.Types, a.Image, a.Network.SSHFrom, a.Boot, a.Keep})
	at += ".aws"
	if a.Image != "" && !fits("sites[].aws.image", a.Image) {
		sc.report.at(at+".image", "debian-12, ubuntu-24.04, al2023 or ami-…", "%s.image: %q is no image", at, a.Image)
	}
	if strings.HasPrefix(a.Image, "ami-") && a.User == "" && sc.report.wasRead(at+".user") {
		sc.report.at(at+".image", "such as `user: admin`", "%s: an image by its id needs its login `user`", at)
	}
	for _, key := range slices.Sorted(maps.Keys(a.Tags)) {
		if !fits("sites[].aws.tags", key) || strings.HasPrefix(key, ownTag) || strings.HasPrefix(key, "aws:") {
			sc.report.atKey(at+".tags", "", "%s.tags: %q cannot be the name of a tag", at, key)
		}
	}
}
