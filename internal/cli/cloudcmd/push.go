package cloudcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/vm/disk"
	"github.com/spf13/cobra"
)

// pushed is an image at a site, as --json prints it.
type pushed struct {
	Site   string    `json:"site"`
	Name   string    `json:"name"`
	ID     string    `json:"id"`
	Source string    `json:"source,omitempty"`
	Digest string    `json:"digest"`
	Arch   string    `json:"arch"`
	User   string    `json:"user"`
	Size   int64     `json:"size_bytes"`
	Pushed time.Time `json:"pushed,omitzero"`
	State  string    `json:"state,omitempty"`
	Whole  bool      `json:"whole"`
	Own    bool      `json:"own"`
	// Was is set of a push where the cloud had it before.
	Was bool `json:"was_there,omitempty"`
}

func pushedOf(site string, i driver.MachineImage) pushed {
	return pushed{Site: site, Name: i.Name, ID: i.ID, Source: i.Source, Digest: i.Digest, Arch: i.Arch, User: i.User, Size: i.Size, Pushed: i.Pushed, State: i.State, Whole: i.Whole, Own: i.Own}
}

// imagePushCommand returns the command `cloud image push`.
func (a *Commands) imagePushCommand() *cobra.Command {
	var (
		sites  []string
		asJSON bool
	)
	c := &cobra.Command{
		Use: "push NAME --site SITE", Short: "Upload an image to clouds, whose machines then boot it", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeDisks,
		Long: `Upload an image that bee cloud image build has made to the clouds of sites. A site of
provider aws gets a snapshot and an image of it (AMI), a site of provider openstack an
image of Glance. No bucket and no role is needed. The cloud compares the digest of all
of it. Sites with image: bee:NAME boot it from then on. What was pushed before is not
uploaded again. An upload that ended in the middle leaves no image, and the next push
removes what it has left, or completes it. One process pushes at a time.`,
		Example: "  bee cloud image push hpc --site aws\n  bee cloud image push hpc --site aws --site campus --json",
		RunE: func(c *cobra.Command, args []string) error {
			if len(sites) == 0 {
				return &core.Error{Kind: core.Invalid, Op: "push image", Object: args[0], Err: errors.New("no site is given"), Remedy: fmt.Sprintf("Give one, such as `bee cloud image push %s --site aws`.", args[0])}
			}
			list, err := a.push(c.Context(), sites, args[0])
			if asJSON {
				return errors.Join(err, a.WriteJSON(list))
			}
			for _, p := range list {
				if p.Was {
					a.Say("site %s has it already", p.Site)
				}
				if _, werr := fmt.Fprintln(a.Stdout, output.Printable(p.Site+"\t"+p.ID)); werr != nil {
					return errors.Join(err, werr)
				}
			}
			return err
		},
	}
	a.siteFlag(c, &sites)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// push uploads an image to the clouds of sites. An error may come with those to which it was.
func (a *Commands) push(ctx context.Context, names []string, image string) ([]pushed, error) {
	list := []pushed{}
	store, err := a.disks()
	if err != nil {
		return list, err
	}
	d, err := store.Get(image)
	if err != nil {
		return list, err
	}
	content, err := os.Open(store.Path(d))
	if err != nil {
		return list, &core.Error{Kind: core.NotFound, Op: "open the disk of the image", Object: image, Err: err, Remedy: fmt.Sprintf("Build it again by `bee cloud image build %s`.", image)}
	}
	defer content.Close()
	err = a.atSites(ctx, names, func(site string, images driver.MachineImages) error {
		ui := console.NewProgress(a.Console, false)
		defer ui.Clear()
		i, was, err := images.Push(ctx, driver.MachineDisk{Name: d.Name, Digest: d.ID, Arch: d.Arch, User: build.MachineUser, Content: content, Size: d.Size}, func(done, total int64) {
			ui.Report(plan.Event{Message: "uploading to " + site, Done: done, Total: total})
		})
		if err != nil {
			return fmt.Errorf("site %s: %w", site, err)
		}
		p := pushedOf(site, i)
		p.Was = was
		list = append(list, p)
		return nil
	})
	return list, err
}

// atSites calls a function with what the cloud of each site keeps. Where it fails, the others follow.
func (a *Commands) atSites(ctx context.Context, names []string, do func(site string, images driver.MachineImages) error) error {
	return a.eachCloud(ctx, names, func(c cloud) error {
		images := c.provider.Inventory().Images()
		if images == nil {
			return &core.Error{Kind: core.Unsupported, Op: "use images at site", Object: c.site.Name, Err: errors.New("its cloud keeps none of bee's"), Remedy: "Use a site of provider aws or openstack."}
		}
		return do(c.site.Name, images)
	})
}

// listPushed lists the images at sites.
func (a *Commands) listPushed(ctx context.Context, names []string, asJSON bool) error {
	all := []pushed{}
	err := a.atSites(ctx, names, func(site string, images driver.MachineImages) error {
		found, err := images.List(ctx)
		for _, i := range found {
			all = append(all, pushedOf(site, i))
		}
		if err != nil {
			err = fmt.Errorf("site %s: %w", site, err)
		}
		return err
	})
	switch {
	case asJSON:
		return errors.Join(err, a.WriteJSON(all))
	case len(all) == 0 && err == nil:
		a.Say("bee has pushed no images there")
		return nil
	case len(all) == 0:
		return err
	}
	w := a.On(a.Stdout).List(4)
	w.Row("SITE", "NAME", "ID", "ARCH", "SIZE", "PUSHED", "STATE", "OF")
	for _, p := range all {
		at, of := "-", "this installation"
		if !p.Pushed.IsZero() {
			at = p.Pushed.Local().Format("2006-01-02 15:04")
		}
		if !p.Own {
			of = "another one"
		}
		state := p.State
		if !p.Whole && p.Pushed.IsZero() { // and not one that was deactivated
			state = "not whole (" + p.State + ")"
		}
		w.Row(p.Site, p.Name, p.ID, console.OrDash(p.Arch), console.BytesText(p.Size), at, state, of)
	}
	return errors.Join(err, w.Flush())
}

// removePushed removes images by their names at sites.
func (a *Commands) removePushed(ctx context.Context, sites, names []string) error {
	for _, name := range names {
		if err := disk.CheckName(name); err != nil {
			return err
		}
	}
	return a.atSites(ctx, sites, func(site string, images driver.MachineImages) error {
		var errs []error
		for _, name := range names {
			removed, others, err := images.Remove(ctx, name)
			for _, i := range removed {
				if _, werr := fmt.Fprintln(a.Stdout, output.Printable(site+"\t"+i.ID)); werr != nil {
					return werr
				}
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("site %s: %w", site, err))
			} else if len(others) > 0 {
				a.Say("at site %s, another installation's image of that name stays: image: bee:%s means %s now", site, name, output.Printable(others[0].ID))
			}
		}
		return errors.Join(errs...)
	})
}
