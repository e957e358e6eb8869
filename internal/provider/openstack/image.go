package openstack

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// image is an image in an answer, with its architecture and its login user.
type image struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Status  string `json:"status"`
	MinDisk int64  `json:"min_disk"`
	MinRAM  int64  `json:"min_ram"`
	Size    int64  `json:"size"`
	Arch    string `json:"architecture"`
	HWArch  string `json:"hw_architecture"`
	Admin   string `json:"os_admin_user"`
	Distro  string `json:"os_distro"`
	// Of images that bee has pushed: see uploaded.
	Owner        string `json:"owner"`
	Visibility   string `json:"visibility"`
	HashKind     string `json:"os_hash_algo"`
	Hash         string `json:"os_hash_value"`
	Checksum     string `json:"checksum"`
	Installation string `json:"bee_installation"`
	BeeName      string `json:"bee_image"`
	Digest       string `json:"bee_digest"`
	Pushed       string `json:"bee_pushed"`
	arch         string
	user         string
	foreign      bool // another installation of bee has pushed it
}

// fits returns why an image cannot be used with a flavor, or nil.
func (i image) fits(f flavor) error {
	switch {
	case f.Memory < i.MinRAM:
		return fmt.Errorf("it has %d MiB of memory, and image %q needs %d", f.Memory, core.Printable(i.Name, 80), i.MinRAM)
	case f.Disk > 0 && f.Disk < i.MinDisk:
		return fmt.Errorf("its disk has %d GiB, and image %q needs %d", f.Disk, core.Printable(i.Name, 80), i.MinDisk)
	case f.Disk > 0 && f.Disk<<30 < i.Size:
		return fmt.Errorf("its disk has %d GiB, and image %q has %d", f.Disk, core.Printable(i.Name, 80), i.Size>>30)
	}
	return nil
}

// users are the login users of the distributions' own images, by the beginning of an image's name.
var users = [][2]string{
	{"debian", "debian"},
	{"ubuntu", "ubuntu"},
	{"fedora", "fedora"},
	{"almalinux", "almalinux"},
	{"rocky", "rocky"},
	{"centos", "cloud-user"},
	{"rhel", "cloud-user"},
	{"opensuse", "opensuse"},
	{"sles", "sles"},
	{"arch", "arch"},
	{"cc-", "cc"},
}

// login returns the login user of an image, or "" where it is not known.
func (i image) login() string {
	if core.IsAccount(i.Admin) {
		return i.Admin
	}
	for _, of := range []string{i.Name, i.Distro} {
		for _, u := range users {
			if strings.HasPrefix(strings.ToLower(of), u[0]) {
				return u[1]
			}
		}
	}
	return ""
}

// images returns those with a name, or, for "", all.
func (a *account) images(ctx context.Context, name string) ([]image, error) {
	query := map[string][]string{"status": {"active"}}
	if name != "" {
		query["name"] = []string{name}
	}
	type page struct {
		Images []image
		Next   string
	}
	return list(ctx, a.client, images, "images", query, func(p page) ([]image, bool) { return p.Images, p.Next != "" }, func(i image) string { return i.ID })
}

// namedImages returns the images that the site's image may be, by its name.
func namedImages(ctx context.Context, a *account) ([]image, error) {
	if name, is := cloud.OwnImage(a.s.Image); is {
		one, err := machineImages{a}.chosen(ctx, name)
		return []image{one}, err
	}
	return a.images(ctx, a.s.Image)
}

// image finds the image of the site.
func (a *account) image(ctx context.Context) (image, error) {
	found, err := namedImages(ctx, a)
	if err != nil {
		return image{}, err
	}
	if len(found) == 0 && isID(a.s.Image) {
		var one image
		if err := a.call(ctx, images, get, "images/"+a.s.Image, nil, &one); err == nil {
			found = append(found, one)
		} else if status := statusOf(err); status != http.StatusNotFound && status != http.StatusBadRequest {
			return image{}, err
		}
	}
	switch len(found) {
	case 0:
		all, err := a.images(ctx, "")
		if err != nil {
			return image{}, err
		}
		var names []string
		for _, i := range all {
			names = append(names, i.Name)
		}
		return image{}, a.unknown("image", a.s.Image, "image", names)
	case 1:
	default:
		var ids []string
		for _, i := range found {
			ids = append(ids, i.ID)
		}
		slices.Sort(ids)
		return image{}, a.invalid("image", a.s.Image, fmt.Errorf("%d images have that name: use the id of one (%s)", len(found), core.Printable(strings.Join(ids, ", "), 400)))
	}
	i := found[0]
	if i.Status != "active" {
		return image{}, a.invalid("image", a.s.Image, fmt.Errorf("its status is %q", core.Printable(i.Status, 40)))
	}
	switch reported := cmp.Or(i.HWArch, i.Arch); {
	case reported == "", strings.HasPrefix(reported, "x86_64"), strings.HasPrefix(reported, "amd64"):
		i.arch = "amd64"
	case strings.HasPrefix(reported, "aarch64"), strings.HasPrefix(reported, "arm64"):
		i.arch = "arm64"
	default:
		return image{}, a.invalid("image", a.s.Image, fmt.Errorf("it is for processors of %q, and bee runs on x86_64 and aarch64", core.Printable(reported, 40)))
	}
	if i.user = a.s.User; i.user == "" {
		i.user = i.login()
	}
	if i.user == "" {
		return image{}, a.invalid("user", "", fmt.Errorf("the login user of image %q is not known", core.Printable(i.Name, 80)))
	}
	return i, nil
}
