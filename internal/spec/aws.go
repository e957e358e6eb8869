package spec

import (
	"fmt"
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
	// Market are kinds of rent in order of preference; none: MarketOnDemand. A spot machine may cost MaxPrice an hour,
	// in US dollars; 0: as much as one on demand.
	Market   []string `yaml:"market" json:",omitempty"`
	MaxPrice float64  `yaml:"max_price" json:",omitempty"`
	// Image is a name of a distribution, such as debian-12, or one of bee's own, such as bee:hpc; or an id, whose login user is
	// User.
	Image   string     `yaml:"image"`
	User    string     `yaml:"user"`
	Network AWSNetwork `yaml:"network"`
	// Placement is how the machines are placed; by default as PlacementCluster, where their type can.
	Placement Placement `yaml:"placement" json:",omitzero"`
	// Disk is the size of the first disk; 0: the image's.
	Disk Size              `yaml:"disk"`
	Tags map[string]string `yaml:"tags"`
	// Boot is how long a machine may take until it answers, and Keep how much longer
	// than the slot it lives; 0: the provider's own.
	Boot time.Duration `yaml:"boot"`
	Keep time.Duration `yaml:"keep"`
	// AskPrice reports that AWS is asked for its prices, as the site has no `price`. Rate is what a unit of their currency
	// is in that of the sites file, by its `exchange`; 0: not known.
	AskPrice bool    `yaml:"-" json:",omitempty"`
	Rate     float64 `yaml:"-" json:",omitempty"`
}

// Currency returns the currency of AWS's own prices.
func (a *AWS) Currency() string {
	if strings.HasPrefix(a.Region, "cn-") {
		return "CNY"
	}
	return "USD"
}

// AsksPrice reports whether the site's provider is asked for its prices.
func (s Site) AsksPrice() bool { return s.AWS != nil && s.AWS.AskPrice }

// WithPrice returns the site with a price that its provider has reported, and the rate of its currency.
func (s Site) WithPrice(p Price) Site {
	if s.Price = p; s.AWS != nil && p.Currency == s.AWS.Currency() {
		s.Price.Rate = s.AWS.Rate
	}
	return s
}

// Words of AWS.Market.
const (
	MarketOnDemand = "on-demand"
	MarketSpot     = "spot"
)

func markets() []string { return []string{MarketSpot, MarketOnDemand} }

// SpotWithOnDemand reports whether the site rents spot machines, and others where these cannot be had.
func (s Site) SpotWithOnDemand() bool {
	return s.AWS != nil && slices.Contains(s.AWS.Market, MarketSpot) && slices.Contains(s.AWS.Market, MarketOnDemand)
}

// OnDemand returns the site without its spot machines.
func (s Site) OnDemand() Site {
	own := *s.AWS
	own.Market, own.MaxPrice = []string{MarketOnDemand}, 0
	s.AWS = &own
	return s
}

// AWSNetwork is where rented machines are.
type AWSNetwork struct {
	// VPC is the id of the network; "": that of Subnets, or the default network.
	VPC     string   `yaml:"vpc" json:",omitempty"`
	Subnets []string `yaml:"subnets"`
	// Public is whether the machines have public addresses, by which they are then reached; "": PublicAuto.
	Public Public `yaml:"public" json:",omitempty"`
	// Bastion is the host, [user@]host, through which the machines are reached, which then have no public addresses.
	Bastion string `yaml:"bastion" json:",omitempty"`
	// SSHFrom are the ranges of addresses that ssh is let in from; none: this machine's.
	SSHFrom []string `yaml:"ssh_from"`
}

// Public is a word of AWSNetwork.Public.
type Public string

// Words of AWSNetwork.Public.
const (
	PublicAuto Public = "auto" // they have some, unless there is a bastion
	PublicYes  Public = "true"
	PublicNo   Public = "false"
)

// publicWords are all words of it.
func publicWords() []string { return []string{string(PublicAuto), string(PublicYes), string(PublicNo)} }

// Pattern returns the form of such a word: true and false are of YAML as well.
func (Public) Pattern() string { return "^(" + strings.Join(publicWords(), "|") + ")$" }

// Forms of texts that EC2 takes.
const (
	vpcName    = `^vpc-[A-Za-z0-9-]+$`
	subnetName = `^subnet-[A-Za-z0-9-]+$`
	imageName  = `^(debian-[0-9]+|ubuntu-[0-9]+\.[0-9]+|al2023|ami-[A-Za-z0-9-]+|bee:[a-z0-9][a-z0-9._-]{0,62})$`
	tagName    = `^[A-Za-z0-9 +=._:/@-]{1,128}$`
	ownTag     = "bee:"
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
	sc.rented(&rented{a.Types, a.Image, a.Network.Bastion, a.Network.SSHFrom, a.Boot, a.Keep, a.Placement})
	at += ".aws"
	sc.awsNetwork(at+".network", a.Network)
	for i, word := range a.Market {
		switch {
		case !fits("sites[].aws.market", word):
			sc.report.at(fmt.Sprintf("%s.market[%d]", at, i), didYouMean(word, markets()), "%s.market: %q is not known", at, word)
		case slices.Contains(a.Market[:i], word):
			sc.report.at(fmt.Sprintf("%s.market[%d]", at, i), "", "%s.market: %s is given twice", at, word)
		}
	}
	within(sc.report, at+".max_price", a.MaxPrice)
	if a.MaxPrice > 0 && !slices.Contains(a.Market, MarketSpot) && sc.report.wasRead(at+".market") {
		sc.report.atKey(at+".max_price", "such as `market: [spot, on-demand]`", "%s.max_price: it is for spot machines, which `market` has none of", at)
	}
	if a.Image != "" && !fits("sites[].aws.image", a.Image) {
		sc.report.at(at+".image", "debian-12, ubuntu-24.04, al2023, bee:NAME or ami-…", "%s.image: %q is no image", at, a.Image)
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

// awsNetwork finds what cannot be the network of rented machines.
func (sc *siteCheck) awsNetwork(at string, n AWSNetwork) {
	if n.VPC != "" && !fits("sites[].aws.network.vpc", n.VPC) {
		sc.report.at(at+".vpc", "such as vpc-0a1b2c", "%s.vpc: %q is no id of a network", at, n.VPC)
	}
	for i, id := range n.Subnets {
		switch {
		case !fits("sites[].aws.network.subnets", id):
			sc.report.at(fmt.Sprintf("%s.subnets[%d]", at, i), "such as subnet-0a1b2c", "%s.subnets: %q is no id of a subnet", at, id)
		case slices.Contains(n.Subnets[:i], id):
			sc.report.at(fmt.Sprintf("%s.subnets[%d]", at, i), "", "%s.subnets: %s is given twice", at, id)
		}
	}
	sc.report.oneOf(at+".public", string(n.Public))
	switch {
	case n.Public == PublicYes && n.Bastion != "":
		sc.report.atKey(at+".public", "leave one of both out", "%s.public: a `bastion` reaches the machines by their private addresses", at)
	case n.Public == PublicNo && n.Bastion == "" && len(n.SSHFrom) == 0 && sc.report.wasRead(at+".ssh_from"):
		sc.report.atKey(at+".public", "such as `ssh_from: [10.0.0.0/16]`, with the address that this machine has there; or a `bastion`",
			"%s.public: machines without public addresses are reached from within their network, and `ssh_from` does not say from where", at)
	}
}
