package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/google/uuid"
)

// Properties of images that bee has pushed, as in image. An image is whole once it has a time in pushedProperty: its content
// was compared then.
const (
	installationProperty = "bee_installation"
	nameProperty         = "bee_image"
	digestProperty       = "bee_digest"
	pushedProperty       = "bee_pushed"
)

// imageTag is a tag of Glance's that all of them have, by which they are listed.
const imageTag = "bee"

// Glance's states of images: with all content, and without any.
const (
	active   = "active"
	queued   = "queued"
	saving   = "saving"
	deleting = "pending_delete"
)

// change is one of an image's properties.
type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value"`
}

// machineImages implements cloud.Images by images of Glance.
type machineImages struct{ a *account }

// Images implements cloud.API.
func (a *account) Images() cloud.Images { return machineImages{a} }

// uploaded returns the project's images that bee has made. What others share with the project is none.
func (m machineImages) uploaded(ctx context.Context) ([]image, error) {
	session, err := m.a.login(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"tag": {imageTag}}
	if session.project != "" {
		query.Set("owner", session.project)
	}
	type page struct {
		Images []image
		Next   string
	}
	found, err := list(ctx, m.a.client, images, "images", query, func(p page) ([]image, bool) { return p.Images, p.Next != "" }, func(i image) string { return i.ID })
	foreign := func(i image) bool {
		own := i.Owner == session.project && i.Owner != "" || session.project == "" && i.Visibility == "private"
		return !own || i.BeeName == "" || !isID(i.ID) || i.Status == "deleted" || i.Status == deleting
	}
	return slices.DeleteFunc(found, foreign), err
}

// goarch returns the GOARCH of an image, or "".
func (i image) goarch() string {
	return map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[i.Arch]
}

// made translates an image that bee has made.
func (i image) made() driver.MachineImage {
	return driver.MachineImage{
		ID: i.ID, Name: i.BeeName, Digest: i.Digest, Arch: i.goarch(), User: i.Admin, Size: i.Size, Installation: i.Installation, Pushed: timeOf(i.Pushed),
		State: i.Status, Whole: i.Status == active && !timeOf(i.Pushed).IsZero(),
	}
}

// List implements cloud.Images.
func (m machineImages) List(ctx context.Context) ([]driver.MachineImage, error) {
	found, err := m.uploaded(ctx)
	if err != nil {
		return nil, err
	}
	var all []driver.MachineImage
	for _, i := range found {
		all = append(all, i.made())
	}
	return all, nil
}

// chosen returns the image of a name that the site's machines boot. Flavors have no architecture: it is the image's.
func (m machineImages) chosen(ctx context.Context, name string) (image, error) {
	found, err := m.uploaded(ctx)
	if err != nil {
		return image{}, err
	}
	var all []driver.MachineImage
	for _, i := range found {
		all = append(all, i.made())
	}
	one, err := m.a.s.Cloud.Chosen(all, name, "")
	if err != nil {
		return image{}, err
	}
	i := found[slices.IndexFunc(found, func(i image) bool { return i.ID == one.ID })]
	i.foreign = !one.Own
	return i, nil
}

// Upload implements cloud.Images. Glance makes an image usable as soon as it has all: it is one of bee's once its digest was
// compared.
func (m machineImages) Upload(ctx context.Context, like driver.MachineImage, d driver.MachineDisk, report func(done, total int64)) (driver.MachineImage, error) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[d.Arch]
	if arch == "" {
		return like, &core.Error{Kind: core.Invalid, Op: "upload image for", Object: d.Arch, Err: errors.New("bee runs on x86_64 and aarch64"), Remedy: "Build the image on such a machine."}
	}
	like.ID = uuid.NewString() // by which it is found where an answer is lost
	properties := map[string]any{
		"id": like.ID, "name": cloud.ImageName(like), "disk_format": "raw", "container_format": "bare", "visibility": "private", "min_disk": (d.Size + 1<<30 - 1) >> 30,
		"tags": []string{imageTag, d.Digest}, "architecture": arch, "hw_firmware_type": "uefi", "os_admin_user": d.User, "os_type": "linux",
		installationProperty: like.Installation, nameProperty: like.Name, digestProperty: like.Digest,
	}
	if err := m.a.call(ctx, images, post, "images", properties, nil); err != nil {
		return like, err
	}
	u := newUpload(d, report)
	if err := m.a.call(ctx, images, put, "images/"+like.ID+"/file", u, nil); err != nil {
		return like, err
	}
	stored, err := m.stored(ctx, like.ID)
	if err != nil {
		return like, err
	}
	if err := compared(stored, u, d); err != nil {
		return like, err
	}
	if err := m.Prefer(ctx, like, like.Pushed); err != nil {
		return like, err
	}
	like.Whole, like.Uploaded, like.State, like.Size = true, true, active, stored.Size
	return like, nil
}

// stored awaits that Glance has stored an image.
func (m machineImages) stored(ctx context.Context, id string) (image, error) {
	pause := pauses()
	for begun := time.Now(); ; {
		var i image
		if err := m.a.call(ctx, images, get, "images/"+id, nil, &i); err != nil {
			return i, err
		}
		waits := i.Status == saving || i.Status == queued || i.Status == "importing" || i.Status == "uploading"
		switch {
		case i.Status == active:
			return i, nil
		case !waits, time.Since(begun) > storeTime:
			return i, &core.Error{Kind: core.Transient, Op: "store image", Object: id, Err: fmt.Errorf("its status is %q", core.Printable(i.Status, 40)), Remedy: "Push the image again."}
		}
		if err := pause.Wait(ctx); err != nil {
			return i, err
		}
	}
}

// compared returns an error where Glance has something else than the disk.
func compared(i image, u *upload, d driver.MachineDisk) error {
	if "sha256:"+u.sum("sha256") != d.Digest {
		return cloud.WrongDigest(d)
	}
	e := &core.Error{Kind: core.Transient, Op: "compare image", Object: i.ID, Remedy: "Push the image again."}
	have, want := strings.ToLower(i.Hash), u.sum(i.HashKind)
	if have == "" || want == "" { // Glance before 2018, or an algorithm that is not known
		have, want = strings.ToLower(i.Checksum), u.sum("md5")
	}
	switch {
	case i.Size != d.Size:
		e.Err = fmt.Errorf("there are %d bytes, expected %d", i.Size, d.Size)
	case have != want:
		e.Err = fmt.Errorf("its content there has the digest %q, expected %q", core.Printable(have, 128), want)
	default:
		return nil
	}
	return e
}

// Prefer implements cloud.Images.
func (m machineImages) Prefer(ctx context.Context, i driver.MachineImage, pushed time.Time) error {
	if err := checkID("change image", i.ID); err != nil {
		return err
	}
	return m.a.call(ctx, images, patch, "images/"+i.ID, []change{{"add", "/" + pushedProperty, pushed.UTC().Format(time.RFC3339Nano)}}, nil)
}

// End implements cloud.Images.
func (m machineImages) End(ctx context.Context, i driver.MachineImage) error {
	if err := checkID("remove image", i.ID); err != nil {
		return err
	}
	err := m.a.call(ctx, images, remove, "images/"+i.ID, nil, nil)
	if isGone(err) {
		return nil
	}
	if core.IsKind(err, core.Busy) {
		return &core.Error{Kind: core.Busy, Op: "remove image", Object: i.ID, Err: err, Remedy: "End the machines that were made of it: this cloud keeps an image as long as they are there."}
	}
	return err
}
