package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// Tags of images that bee has pushed, and of the snapshots that they are made of, beside tagInstallation.
const (
	tagImage  = "bee:image"
	tagDigest = "bee:digest"
	tagArch   = "bee:arch"
	tagUser   = "bee:user"
	tagPushed = "bee:pushed"
	// tagSent is set of a snapshot once all of its content is there.
	tagSent = "bee:sent"
)

// snapshotForm is the form of ids of snapshots, which become part of an address.
var snapshotForm = regexp.MustCompile(`^snap-[A-Za-z0-9-]{1,64}$`)

// rootDisk is the name of the first disk. Nitro machines have it as an NVMe device.
const rootDisk = "/dev/xvda"

// leastRoot is how large the first disk is at least, in GiB: the machine fills what the image does not take. `disk:` at a site
// wins.
const leastRoot = 8

// States of images and snapshots.
const (
	available  = "available"
	completed  = "completed"
	pending    = "pending"
	failedDisk = "error"
)

// hasFailed reports whether a snapshot or an image has a state from which it does not come back.
func hasFailed(state string) bool {
	return slices.Contains([]string{failedDisk, "failed", "invalid", "deregistered"}, state)
}

// snapshotInUse is the code where an image is still made of a snapshot.
const snapshotInUse = "InvalidSnapshot.InUse"

// machineImages implements cloud.Images: each is an AMI of one snapshot of its own.
type machineImages struct{ a *account }

// Images implements cloud.API.
func (a *account) Images() cloud.Images { return machineImages{a} }

// snapshot is one in an answer.
type snapshot struct {
	ID    string `xml:"snapshotId"`
	State string `xml:"status"`
	GiB   int64  `xml:"volumeSize"`
	Tags  []tag  `xml:"tagSet>item"`
}

// tagsOf returns the tags of an image.
func tagsOf(i driver.MachineImage) map[string]string {
	return map[string]string{
		"Name": cloud.ImageName(i), tagInstallation: i.Installation, tagImage: i.Name, tagDigest: i.Digest, tagArch: i.Arch, tagUser: i.User,
		tagPushed: i.Pushed.UTC().Format(time.RFC3339Nano),
	}
}

// described returns what tags say of an image.
func described(tags []tag) driver.MachineImage {
	return driver.MachineImage{
		Name: valueOf(tags, tagImage), Digest: valueOf(tags, tagDigest), Arch: valueOf(tags, tagArch), User: valueOf(tags, tagUser),
		Installation: valueOf(tags, tagInstallation), Pushed: timeOf(valueOf(tags, tagPushed)),
	}
}

// ofBee are the filters for what bee has pushed.
func ofBee() []filter { return []filter{{"tag-key", []string{tagImage}}} }

// snapshots returns those of the account that bee has made.
func (m machineImages) snapshots(ctx context.Context, more ...filter) ([]snapshot, error) {
	type page struct {
		Snapshots []snapshot `xml:"snapshotSet>item"`
		Next      string     `xml:"nextToken"`
	}
	params := filtered(url.Values{"Owner.1": {"self"}, "MaxResults": {"1000"}}, append(ofBee(), more...)...)
	return listBy(ctx, m.a, "DescribeSnapshots", params, func(p page) ([]snapshot, string) { return p.Snapshots, p.Next })
}

// images returns those of the account that bee has made, also disabled ones: their snapshots are in use.
func (m machineImages) images(ctx context.Context, more ...filter) ([]image, error) {
	type page struct {
		Images []image `xml:"imagesSet>item"`
		Next   string  `xml:"nextToken"`
	}
	params := filtered(url.Values{"Owner.1": {"self"}, "IncludeDisabled": {"true"}, "MaxResults": {"1000"}}, append(ofBee(), more...)...)
	return listBy(ctx, m.a, "DescribeImages", params, func(p page) ([]image, string) { return p.Images, p.Next })
}

// made translates an image. One that will never be bootable is what an upload has left.
func (i image) made() driver.MachineImage {
	of := described(i.Tags)
	of.ID, of.State, of.Whole, of.Uploaded = i.ID, i.State, i.State == available, i.State == available || i.State == pending
	if hasFailed(i.State) {
		of.Pushed = time.Time{}
	}
	of.Arch = map[string]string{"x86_64": "amd64", "arm64": "arm64"}[i.Arch] // by which EC2 goes
	for _, d := range i.Disks {
		if d.Volume != nil && d.Name == i.Disk {
			of.Source = d.Volume.Snapshot
		}
	}
	return of
}

// List implements cloud.Images. A snapshot without an image is what an upload has left. The snapshots are asked for first:
// an image that is made meanwhile is then listed.
func (m machineImages) List(ctx context.Context) ([]driver.MachineImage, error) {
	disks, err := m.snapshots(ctx)
	if err != nil {
		return nil, err
	}
	found, err := m.images(ctx)
	if err != nil {
		return nil, err
	}
	var all []driver.MachineImage
	used := map[string]bool{}
	for _, i := range found {
		of := i.made()
		used[of.Source] = true
		at := slices.IndexFunc(disks, func(s snapshot) bool { return s.ID == of.Source && valueOf(s.Tags, tagInstallation) == of.Installation })
		if at < 0 { // another's, which stays whatever becomes of the image
			of.Source = ""
		} else {
			of.Size = disks[at].GiB << 30
		}
		all = append(all, of)
	}
	for _, s := range disks {
		if used[s.ID] {
			continue
		}
		of := described(s.Tags)
		of.ID, of.State, of.Size, of.Uploaded, of.Pushed = s.ID, s.State, s.GiB<<30, s.State == completed || s.State == pending && valueOf(s.Tags, tagSent) != "", time.Time{}
		all = append(all, of)
	}
	return all, nil
}

// chosen returns the image of a name that the site's machines boot.
func (m machineImages) chosen(ctx context.Context, name, arch string) (image, error) {
	found, err := m.images(ctx)
	if err != nil {
		return image{}, err
	}
	var all []driver.MachineImage
	for _, i := range found {
		all = append(all, i.made())
	}
	one, err := m.a.s.Cloud.Chosen(all, name, arch)
	if err != nil {
		return image{}, err
	}
	i := found[slices.IndexFunc(found, func(i image) bool { return i.ID == one.ID })]
	i.foreign = !one.Own
	if i.user = cmp.Or(m.a.s.User, one.User); !core.IsAccount(i.user) {
		return image{}, m.a.invalid("user", "", errors.New("the login user of image "+core.Printable(m.a.s.Image, 80)+" is not known"))
	}
	return i, nil
}

// Upload implements cloud.Images.
func (m machineImages) Upload(ctx context.Context, like driver.MachineImage, d driver.MachineDisk, report func(done, total int64)) (driver.MachineImage, error) {
	if !like.Uploaded {
		var err error
		if like, err = m.send(ctx, like, d, report); err != nil {
			return like, err
		}
	}
	if snapshotForm.MatchString(like.ID) { // and not an image that an earlier call has made
		var err error
		if like.Uploaded, err = m.settle(ctx, like.ID); err != nil {
			return like, err
		}
		id, err := m.register(ctx, like)
		if err != nil {
			return like, err
		}
		like.ID, like.Source = id, like.ID
	}
	err := await(ctx, like.ID, func() (string, bool, error) {
		found, err := m.images(ctx, filter{"image-id", []string{like.ID}})
		if err != nil || len(found) == 0 { // it is listed late
			return "", false, err
		}
		return found[0].State, found[0].State == available, nil
	})
	like.Whole, like.State = err == nil, available
	return like, err
}

// send makes the snapshot of a disk. EBS may still work on it, but has all of its content then, which the tag says.
func (m machineImages) send(ctx context.Context, like driver.MachineImage, d driver.MachineDisk, report func(done, total int64)) (driver.MachineImage, error) {
	w := blockWriter(m)
	all := maps.Clone(m.a.s.Tags)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, tagsOf(like))
	var err error
	if like.ID, err = w.start(ctx, d.Size, "bee image "+like.Name, all); err != nil {
		return like, err
	}
	sent, err := w.write(ctx, like.ID, d, report)
	if err == nil {
		err = w.complete(ctx, like.ID, sent)
	}
	if like.Uploaded = err == nil; like.Uploaded {
		core.BestEffort(m.a.call(ctx, "CreateTags", url.Values{"ResourceId.1": {like.ID}, "Tag.1.Key": {tagSent}, "Tag.1.Value": {"true"}}, &struct{}{})) // without it, a push that comes before EBS is done sends all again
	}
	return like, err
}

// settle waits until a snapshot that has all of its content is one of which an image can be made. With an error, has is
// whether it still has it.
func (m machineImages) settle(ctx context.Context, id string) (has bool, err error) {
	has = true
	err = await(ctx, id, func() (string, bool, error) {
		found, err := m.snapshots(ctx, filter{"snapshot-id", []string{id}})
		if err != nil || len(found) == 0 { // it is listed late
			return "", false, err
		}
		has = !hasFailed(found[0].State)
		return found[0].State, found[0].State == completed, nil
	})
	return has, err
}

// settlingTime bounds how long EC2 may take with a snapshot, or an image, that has all of its content.
const settlingTime = 30 * time.Minute

// await waits until something has come to its end. state is in the cloud's words; "": it is not listed yet.
func await(ctx context.Context, of string, look func() (state string, done bool, err error)) error {
	pause := fsutil.Backoff{First: 200 * time.Millisecond, Longest: 10 * time.Second}
	for begun := time.Now(); ; {
		state, done, err := look()
		if done || err != nil {
			return err
		}
		if hasFailed(state) {
			return &core.Error{Kind: core.Transient, Op: "await the end of the upload of", Object: of, Err: fmt.Errorf("its state is %q", state), Remedy: "Push the image again."}
		}
		if time.Since(begun) > settlingTime {
			return &core.Error{Kind: core.Transient, Op: "await the end of the upload of", Object: of, Err: fmt.Errorf("its state is %q after %s", core.Printable(state, 40), settlingTime), Remedy: "Push the image again: the upload is continued."}
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// register makes an image of a snapshot: for Nitro machines, which boot it by UEFI. One that an earlier call has made is
// returned.
func (m machineImages) register(ctx context.Context, of driver.MachineImage) (string, error) {
	name := cloud.ImageName(of)
	params := url.Values{
		"Name": {name}, "Description": {"bee image " + of.Name}, "Architecture": {archName(of.Arch)}, "VirtualizationType": {"hvm"}, "BootMode": {"uefi"},
		"EnaSupport": {"true"}, "ImdsSupport": {"v2.0"}, "RootDeviceName": {rootDisk},
		"BlockDeviceMapping.1.DeviceName": {rootDisk}, "BlockDeviceMapping.1.Ebs.SnapshotId": {of.ID},
		"BlockDeviceMapping.1.Ebs.VolumeSize": {strconv.FormatInt(max(leastRoot, gibibytes(of.Size)), 10)}, "BlockDeviceMapping.1.Ebs.VolumeType": {"gp3"}, "BlockDeviceMapping.1.Ebs.DeleteOnTermination": {"true"},
	}
	m.a.tagged(params, tagsOf(of), "image")
	var made struct {
		ID string `xml:"imageId"`
	}
	err := m.a.call(ctx, "RegisterImage", params, &made)
	if codeOf(err) != "InvalidAMIName.Duplicate" {
		return made.ID, err
	}
	err = await(ctx, name, func() (string, bool, error) { // a call whose answer was lost
		found, ferr := m.images(ctx, filter{"name", []string{name}})
		if len(found) > 0 {
			made.ID = found[0].ID
			if one := found[0].made(); one.Source != of.ID {
				return "", false, &core.Error{Kind: core.Busy, Op: "register image", Object: name, Err: err, Remedy: "Remove the image " + core.Printable(one.ID, 40) + " of that name, or push again."}
			}
		}
		return "", len(found) > 0, ferr
	})
	return made.ID, err
}

// Prefer implements cloud.Images.
func (m machineImages) Prefer(ctx context.Context, i driver.MachineImage, pushed time.Time) error {
	params := url.Values{"ResourceId.1": {i.ID}, "Tag.1.Key": {tagPushed}, "Tag.1.Value": {pushed.UTC().Format(time.RFC3339Nano)}}
	return m.a.call(ctx, "CreateTags", params, &struct{}{})
}

// usedTime bounds how long EC2 may take a snapshot for one of an image that was just removed.
const usedTime = 30 * time.Second

// End implements cloud.Images.
func (m machineImages) End(ctx context.Context, i driver.MachineImage) error {
	disk, alone := i.ID, snapshotForm.MatchString(i.ID)
	if !alone {
		if err := m.a.call(ctx, "DeregisterImage", url.Values{"ImageId": {i.ID}}, &struct{}{}); err != nil && !isGone(err) {
			return err
		}
		disk = i.Source
	}
	if disk == "" {
		return nil
	}
	pause := fsutil.Backoff{First: 200 * time.Millisecond, Longest: 5 * time.Second}
	for begun := time.Now(); ; {
		err := m.a.call(ctx, "DeleteSnapshot", url.Values{"SnapshotId": {disk}}, &struct{}{})
		if isGone(err) {
			return nil
		}
		if codeOf(err) != snapshotInUse || time.Since(begun) > usedTime || alone {
			return err
		}
		if werr := pause.Wait(ctx); werr != nil {
			return werr
		}
	}
}
