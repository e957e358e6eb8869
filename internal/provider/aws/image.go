package aws

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// image is an image in an answer, and its login user.
type image struct {
	ID    string `xml:"imageId"`
	Arch  string `xml:"architecture"`
	Disk  string `xml:"rootDeviceName"`
	State string `xml:"imageState"`
	Made  string `xml:"creationDate"`
	Disks []struct {
		Name   string    `xml:"deviceName"`
		Volume *struct{} `xml:"ebs"` // nil: a disk of the machine itself
	} `xml:"blockDeviceMapping>item"`
	user string
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

// image finds the image of the site for an architecture: of a name, the newest.
func (a *account) image(ctx context.Context, arch string) (image, error) {
	ec2 := archName(arch)
	params, user := url.Values{}, a.s.User
	if strings.HasPrefix(a.s.Image, "ami-") {
		filtered(params, filter{"image-id", []string{a.s.Image}})
	} else {
		owner, pattern, known := published(a.s.Image, arch)
		if owner == "" {
			return image{}, a.invalid("image", a.s.Image, errors.New("it is neither debian-N, ubuntu-N, al2023 nor ami-…"))
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
		return image{}, a.invalid("image", a.s.Image, fmt.Errorf("the region has no such image for %s", arch))
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
