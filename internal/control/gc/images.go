package gc

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// ownerOfImages is whose the images are that this installation has pushed: they belong to no run.
func (c *Collector) ownerOfImages() core.Owner { return core.Owner{User: c.State.User()} }

// imagesOf returns where the cloud of a site keeps images, or nil.
func imagesOf(p driver.Provider) driver.MachineImages {
	if p.Inventory() == nil {
		return nil
	}
	return p.Inventory().Images()
}

// images returns this installation's images of a site's cloud.
func (c *Collector) images(ctx context.Context, p driver.Provider) ([]driver.Rented, error) {
	images := imagesOf(p)
	if images == nil {
		return nil, nil
	}
	found, err := images.List(ctx)
	var all []driver.Rented
	for _, i := range found {
		if i.Installation != c.State.User() {
			continue
		}
		all = append(all, driver.Rented{
			Kind: driver.RentedImage, ID: i.ID, Name: i.Name, Owner: c.ownerOfImages(), Type: core.Printable(i.Name, 80), State: core.Printable(i.State, 40), Since: i.Pushed, Stays: !i.Left(),
		})
	}
	return all, err
}

// sweepImages removes from the cloud of a site what uploads of images have left that ended in the middle.
func (c *Collector) sweepImages(ctx context.Context, site spec.Site, p driver.Provider, how Sweeping) ([]Swept, error) {
	images := imagesOf(p)
	if images == nil {
		return nil, nil
	}
	left, err := images.Clean(ctx, how.Dry)
	if core.IsKind(err, core.Unsupported) && len(left) == 0 { // as with policies from before there were images, which `bee cloud ls` reports
		return nil, nil
	}
	if err != nil {
		err = fmt.Errorf("site %s: %w", site.Name, err)
	}
	var found []Swept
	for _, i := range left {
		s := Swept{Site: site.Name, Owner: c.State.User(), Image: i.Name}
		if err != nil {
			s.Error = err.Error()
		}
		found = append(found, s)
	}
	return found, err
}
