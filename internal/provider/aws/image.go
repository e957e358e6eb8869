package aws

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// image is an image in an answer, and its login user.
type image struct {
	ID    string `xml:"imageId"`
	Arch  string `xml:"architecture"`
	Disk  string `xml:"rootDeviceName"`
	State string `xml:"imageState"`
	Name  string `xml:"name"`
	Made  string `xml:"creationDate"`
	Disks []struct {
		Name   string `xml:"deviceName"`
		Volume *struct {
			Snapshot string `xml:"snapshotId"`
		} `xml:"ebs"` // nil: a disk of the machine itself
	} `xml:"blockDeviceMapping>item"`
	Tags []tag `xml:"tagSet>item"`
	user string
	// foreign is set of one that another installation of bee has pushed.
	foreign bool
}

// others are the names of the image's volumes beside its first disk.
func (i image) others() (names []string) {
	for _, d := range i.Disks {
		if d.Volume != nil && d.Name != i.Disk {
			names = append(names, d.Name)
		}
	}
	return names
}

// Accounts of AWS that publish images.
const (
	ofDebian = "136693071363"
	ofUbuntu = "099720109477"
	ofAmazon = "137112412989"
)

// archName returns EC2's name of a GOARCH.
func archName(arch string) string {
	if arch == "amd64" {
		return "x86_64"
	}
	return arch
}

// published returns the account that publishes the images of a name, the pattern of their
// names, and their login user; "" of a name that has none.
func published(name, arch string) (owner, pattern, user string) {
	switch {
	case strings.HasPrefix(name, "debian-"):
		return ofDebian, name + "-" + arch + "-*", "admin"
	case strings.HasPrefix(name, "ubuntu-"):
		return ofUbuntu, "ubuntu/images/hvm-ssd*/ubuntu-*-" + strings.TrimPrefix(name, "ubuntu-") + "-" + arch + "-server-*", "ubuntu"
	case name == "al2023":
		return ofAmazon, "al2023-ami-2023.*-" + archName(arch), "ec2-user"
	}
	return "", "", ""
}

// releases are the names of a distribution's images: their beginning, the account that publishes them, the pattern of all of
// them, and the form of their names, with the release.
var releases = []struct{ begins, owner, pattern, form string }{
	{"debian-", ofDebian, "debian-*-@ARCH@-*", `^debian-([0-9]+)-@ARCH@-[0-9]`},
	{"ubuntu-", ofUbuntu, "ubuntu/images/hvm-ssd*/ubuntu-*-@ARCH@-server-*", `/ubuntu-[a-z]+-([0-9]+\.[0-9]+)-@ARCH@-server-`},
}

// noImage is the error of an image that is not there. It lists the releases of its distribution that are.
func noImage(ctx context.Context, a *account, arch string) error {
	for _, r := range releases {
		if !strings.HasPrefix(a.s.Image, r.begins) {
			continue
		}
		form, err := regexp.Compile(strings.ReplaceAll(r.form, "@ARCH@", arch))
		if err != nil {
			return err
		}
		var answer struct {
			Images []image `xml:"imagesSet>item"`
		}
		params := filtered(url.Values{"Owner.1": {r.owner}}, filter{"name", []string{strings.ReplaceAll(r.pattern, "@ARCH@", arch)}}, filter{"state", []string{"available"}})
		if err := a.call(ctx, "DescribeImages", params, &answer); err != nil {
			return err
		}
		var names []string
		for _, i := range answer.Images {
			if found := form.FindStringSubmatch(i.Name); found != nil {
				names = append(names, r.begins+found[1])
			}
		}
		return a.unknown("image", a.s.Image, "image for "+arch, names)
	}
	return a.invalid("image", a.s.Image, fmt.Errorf("the region has no such image for %s", arch))
}

// image finds the image of the site for an architecture: of a name, the newest.
func (a *account) image(ctx context.Context, arch string) (image, error) {
	if name, is := cloud.OwnImage(a.s.Image); is {
		return machineImages{a}.chosen(ctx, name, arch)
	}
	ec2 := archName(arch)
	params, user := url.Values{}, a.s.User
	if strings.HasPrefix(a.s.Image, "ami-") {
		filtered(params, filter{"image-id", []string{a.s.Image}})
	} else {
		owner, pattern, known := published(a.s.Image, arch)
		if owner == "" {
			return image{}, a.invalid("image", a.s.Image, errors.New("it is neither debian-N, ubuntu-N, al2023, bee:NAME nor ami-…"))
		}
		params.Set("Owner.1", owner)
		filtered(params, filter{"name", []string{pattern}}, filter{"architecture", []string{ec2}}, filter{"state", []string{"available"}})
		if user == "" {
			user = known
		}
	}
	var answer struct {
		Images []image `xml:"imagesSet>item"`
	}
	if err := a.call(ctx, "DescribeImages", params, &answer); err != nil {
		return image{}, err
	}
	if len(answer.Images) == 0 {
		return image{}, noImage(ctx, a, arch)
	}
	newest := slices.MaxFunc(answer.Images, func(x, y image) int { return strings.Compare(x.Made, y.Made) })
	if newest.Arch != ec2 {
		return image{}, a.invalid("image", a.s.Image, fmt.Errorf("it is for %s, and the site's type has processors of %s", newest.Arch, ec2))
	}
	if user == "" {
		return image{}, a.invalid("user", "", errors.New("the login user of image "+a.s.Image+" is not known"))
	}
	newest.user = user
	return newest, nil
}
