package aws

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// volume is a disk in an answer.
type volume struct {
	ID       string `xml:"volumeId"`
	State    string `xml:"status"`
	GiB      int    `xml:"size"`
	Kind     string `xml:"volumeType"`
	Zone     string `xml:"availabilityZone"`
	Made     string `xml:"createTime"`
	Attached []struct {
		Machine string `xml:"instanceId"`
		Ends    bool   `xml:"deleteOnTermination"`
	} `xml:"attachmentSet>item"`
	Tags []tag `xml:"tagSet>item"`
}

// States of volumes: on a machine, and about to be gone.
const (
	usedVolume   = "in-use"
	endingVolume = "deleting"
)

// Others implements cloud.API: the disks of machines, which end with these.
func (a *account) Others(ctx context.Context, q core.Owner) ([]driver.Rented, error) {
	type page struct {
		Volumes []volume `xml:"volumeSet>item"`
		Next    string   `xml:"nextToken"`
	}
	found, err := list(ctx, a, "DescribeVolumes", ownedBy(q), func(p page) ([]volume, string) { return p.Volumes, p.Next })
	var all []driver.Rented
	for _, v := range found {
		if v.State == endingVolume {
			continue
		}
		d := driver.Rented{
			Kind: driver.RentedDisk, ID: v.ID, Owner: ownerOf(v.Tags), Type: fmt.Sprintf("%d GiB %s", v.GiB, v.Kind), Zone: v.Zone, State: v.State, Since: timeOf(v.Made),
		}
		for _, at := range v.Attached {
			if at.Ends {
				d.With = at.Machine
			}
		}
		all = append(all, d)
	}
	return all, err
}

// EndOther implements cloud.API.
func (a *account) EndOther(ctx context.Context, o driver.Rented) error {
	switch {
	case o.Kind != driver.RentedDisk || o.With != "":
		return nil
	case o.State == usedVolume:
		return &core.Error{
			Kind: core.Busy, Op: "delete volume", Object: o.ID, Err: errors.New("it is on a machine"), Remedy: "Detach it from that machine, or remove its tags to keep it.",
		}
	}
	err := a.call(ctx, "DeleteVolume", url.Values{"VolumeId": {o.ID}}, &struct{}{})
	if isGone(err) {
		return nil
	}
	return err
}
