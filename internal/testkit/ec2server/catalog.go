package ec2server

import (
	"net/url"
	"slices"
)

// Zones of the region. The second does not offer ZoneBound.
const (
	ZoneA = Region + "a"
	ZoneB = Region + "b"
)

// Types of machines: Small has 2 cores, Large 4, ZoneBound is offered in ZoneA only, and Arm has
// processors of another architecture, and cannot be placed in a cluster.
const (
	Small     = "t9.small"
	Large     = "t9.large"
	ZoneBound = "h9.large"
	Arm       = "a9.small"
)

// Image and ImageArm are ids of images without a known login user.
const (
	Image    = "ami-0000000000000amd6"
	ImageArm = "ami-0000000000000arm6"
)

// Networks: the default one, whose subnets give public addresses by themselves, OtherVPC with one that does, OtherPublic, and
// one that does not, OtherPrivate, and PrivateVPC, where none does.
const (
	vpc          = "vpc-1"
	OtherVPC     = "vpc-2"
	OtherPublic  = "subnet-2-public"
	OtherPrivate = "subnet-2-private"
	PrivateVPC   = "vpc-3"
)

type typeItem struct {
	Name    string   `xml:"instanceType"`
	Cores   int      `xml:"vCpuInfo>defaultVCpus"`
	Memory  int      `xml:"memoryInfo>sizeInMiB"`
	Arch    []string `xml:"processorInfo>supportedArchitectures>item"`
	Markets []string `xml:"supportedUsageClasses>item"`
	// Strategies are those of placement groups.
	Strategies []string `xml:"placementGroupInfo>supportedStrategies>item"`
}

func types() []typeItem {
	all, markets := []string{cluster, "partition", spread}, []string{"on-demand", "spot"}
	return []typeItem{
		{Small, 2, 4096, []string{"i386", "x86_64"}, markets, all},
		{Large, 4, 8192, []string{"x86_64"}, markets, all},
		{ZoneBound, 4, 8192, []string{"x86_64"}, markets[:1], all},
		{Arm, 2, 4096, []string{"arm64"}, markets, all[1:]},
	}
}

func (s *Server) describeTypes(params url.Values) (any, error) {
	var found []typeItem
	for _, t := range types() {
		is, err := passes(params, map[string]string{"instance-type": t.Name}, nil)
		if err != nil {
			return nil, err
		}
		if is {
			found = append(found, t)
		}
	}
	return struct {
		bare
		Types []typeItem `xml:"instanceTypeSet>item"`
	}{Types: found}, nil
}

type offeringItem struct {
	Type     string `xml:"instanceType"`
	Kind     string `xml:"locationType"`
	Location string `xml:"location"`
}

func offerings() (all []offeringItem) {
	for _, t := range types() {
		for _, zone := range []string{ZoneA, ZoneB} {
			if t.Name != ZoneBound || zone == ZoneA {
				all = append(all, offeringItem{t.Name, "availability-zone", zone})
			}
		}
	}
	return all
}

func (s *Server) describeOfferings(params url.Values) (any, error) {
	if params.Get("LocationType") != "availability-zone" {
		return nil, fail("InvalidParameterValue", "LocationType %q", params.Get("LocationType"))
	}
	var found []offeringItem
	for _, o := range offerings() {
		is, err := passes(params, map[string]string{"instance-type": o.Type, "location": o.Location}, nil)
		if err != nil {
			return nil, err
		}
		if is {
			found = append(found, o)
		}
	}
	return struct {
		bare
		Offered []offeringItem `xml:"instanceTypeOfferingSet>item"`
	}{Offered: found}, nil
}

type imageItem struct {
	ID    string `xml:"imageId"`
	Name  string `xml:"name"`
	Owner string `xml:"imageOwnerId"`
	Arch  string `xml:"architecture"`
	Disk  string `xml:"rootDeviceName"`
	State string `xml:"imageState"`
	Made  string `xml:"creationDate"`
	Boot  string `xml:"bootMode,omitempty"`
	ENA   bool   `xml:"enaSupport"`
	// Disks are made for each machine, and outlive it where the call does not want otherwise.
	Disks []diskItem `xml:"blockDeviceMapping>item"`
	Tags  []tagItem  `xml:"tagSet>item"`
}

// tags returns the tags of an image.
func (i imageItem) tags() map[string]string {
	all := map[string]string{}
	for _, t := range i.Tags {
		all[t.Key] = t.Value
	}
	return all
}

type diskItem struct {
	Name     string `xml:"deviceName"`
	Size     int    `xml:"ebs>volumeSize"`
	Snapshot string `xml:"ebs>snapshotId,omitempty"`
}

// account is the id of the user's account.
const account = "111111111111"

// images are those that there are: of publishers, of the account, and what it has registered.
func (c snapshots) images() []imageItem {
	const early = "2026-01-01T00:00:00.000Z"
	image := func(id, name, owner, arch, made string, disks ...diskItem) imageItem {
		return imageItem{ID: id, Name: name, Owner: owner, Arch: arch, Disk: "/dev/xvda", State: available, Made: made, ENA: true, Disks: disks}
	}
	all := []imageItem{
		image(Image, "own", account, "x86_64", early, diskItem{Name: "/dev/xvda", Size: 8}, diskItem{Name: "/dev/sdf", Size: 100}),
		image(ImageArm, "own-arm", account, "arm64", early),
		image("ami-debian-old", "debian-12-amd64-20260101-1", "136693071363", "x86_64", early),
		image("ami-debian-new", "debian-12-amd64-20260901-1", "136693071363", "x86_64", "2026-09-01T00:00:00.000Z"),
		image("ami-debian-fake", "debian-12-amd64-20270101-1", "666666666666", "x86_64", "2027-01-01T00:00:00.000Z"),
	}
	for _, i := range c.s.registered {
		all = append(all, *i)
	}
	return all
}

func (s *Server) describeImages(params url.Values) (any, error) {
	var found []imageItem
	for _, i := range (snapshots{s}).images() {
		is, err := passes(params, map[string]string{"image-id": i.ID, "name": i.Name, "architecture": i.Arch, "state": i.State}, i.tags())
		if err != nil {
			return nil, err
		}
		listed := i.State != Disabled || params.Get("IncludeDisabled") == "true"
		if is && listed && owned(params, i.Owner) && !(snapshots{s}).isLate(i.ID) {
			found = append(found, i)
		}
	}
	return struct {
		bare
		Images []imageItem `xml:"imagesSet>item"`
	}{Images: found}, nil
}

// owned reports whether an owner is one of those that a call wants.
func owned(params url.Values, owner string) bool {
	owners := list(params, "Owner")
	return len(owners) == 0 || slices.Contains(owners, owner) || owner == account && slices.Contains(owners, "self")
}

type subnetItem struct {
	ID      string `xml:"subnetId"`
	VPC     string `xml:"vpcId"`
	Zone    string `xml:"availabilityZone"`
	Default bool   `xml:"defaultForAz"`
	Public  bool   `xml:"mapPublicIpOnLaunch"`
}

func subnets() []subnetItem {
	return []subnetItem{
		{"subnet-b", vpc, ZoneB, true, true},
		{"subnet-a", vpc, ZoneA, true, true},
		{"subnet-own", vpc, ZoneA, false, false},
		{OtherPrivate, OtherVPC, ZoneA, false, false},
		{OtherPublic, OtherVPC, ZoneA, false, true},
		{"subnet-3", PrivateVPC, ZoneB, false, false},
	}
}

func (s *Server) describeSubnets(params url.Values) (any, error) {
	var found []subnetItem
	for _, n := range subnets() {
		byDefault := "false"
		if n.Default {
			byDefault = "true"
		}
		is, err := passes(params, map[string]string{"subnet-id": n.ID, "vpc-id": n.VPC, "default-for-az": byDefault}, nil)
		if err != nil {
			return nil, err
		}
		if is {
			found = append(found, n)
		}
	}
	return struct {
		bare
		Subnets []subnetItem `xml:"subnetSet>item"`
	}{Subnets: found}, nil
}
