package cloudcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/vm/disk"
	"github.com/spf13/cobra"
)

// imageCommand returns the command `cloud image`.
func (a *Commands) imageCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "image", Short: "Make and keep images that rented machines boot", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.imageBuildCommand(), a.imagePushCommand(), a.imageLsCommand(), a.imageRmCommand())
	return c
}

// diskView is a disk, as --json prints it.
type diskView struct {
	disk.Disk
	File string `json:"file"`
}

// disks opens the store of disks.
func (a *Commands) disks() (*disk.Store, error) {
	if err := a.Paths(); err != nil {
		return nil, err
	}
	return disk.Open(a.CacheDir), nil
}

// imageBuildCommand returns the command `cloud image build`.
func (a *Commands) imageBuildCommand() *cobra.Command {
	var (
		o             build.Options
		again, asJSON bool
	)
	c := &cobra.Command{
		Use: "build NAME", Short: "Build an image that machines of clouds boot, without root and without a virtual machine",
		Long: `Build an image that machines of clouds boot, of Debian packages: kernel, Docker,
NFS, RDMA and bee. It needs neither root nor a virtual machine. The image boots by
UEFI, and has drivers for EC2's Nitro machines, for virtio and for Mellanox cards.
It has no cloud-init: bee itself reads what the cloud has for the machine, and runs
the start script. Equal packages give the same image bit by bit: its id is the digest
of its content. The image is a raw disk for the architecture of this machine. Upload
it by bee cloud image push.`,
		Example: "  bee cloud image build hpc\n  bee cloud image build hpc --package htop --snapshot 20250520T000000Z",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Disk, o.Arch = true, runtime.GOARCH
			if err := disk.CheckName(args[0]); err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			d, err := a.buildDisk(c.Context(), args[0], o, again)
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(diskView{d, disk.Open(a.CacheDir).Path(d)})
			}
			_, err = fmt.Fprintln(a.Stdout, d.ID)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Suite, "suite", "bookworm", "Debian `suite`")
	f.StringVar(&o.Snapshot, "snapshot", "", "`date` such as 20250520T000000Z, for the same image bit by bit")
	f.StringVar(&o.Mirror, "mirror", "", "Debian mirror's `URL` (default: this host's own, or with --snapshot snapshot.debian.org)")
	f.StringArrayVar(&o.Packages, "package", nil, "further Debian `package`")
	f.StringArrayVar(&o.Run, "run", nil, "shell `command` to run in it, as its root")
	f.BoolVar(&again, "again", false, "build even if the cache has the result of the same inputs")
	f.BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// buildDisk builds a guest image of options, and a disk of it.
func (a *Commands) buildDisk(ctx context.Context, name string, o build.Options, again bool) (disk.Disk, error) {
	disks, err := a.disks()
	if err != nil {
		return disk.Disk{}, err
	}
	store, err := a.OpenImages()
	if err != nil {
		return disk.Disk{}, err
	}
	binary, err := os.Executable()
	if err != nil {
		return disk.Disk{}, err
	}
	policy := "missing"
	if again {
		policy = "always"
	}
	recipe := build.Recipe(o)
	ui := console.NewProgress(a.Console, false)
	defer ui.Clear()
	report := func(message string, done, total int64) {
		ui.Report(plan.Event{Message: message, Done: done, Total: total})
	}
	guest, err := store.Resolve(ctx, &spec.Job{Name: "machine", Build: &recipe, Dir: workspace.WorkingDir()}, o.Arch, policy, report)
	if err != nil {
		return disk.Disk{}, err
	}
	tree, release, err := store.Tree(ctx, guest.ID)
	if err != nil {
		return disk.Disk{}, err
	}
	defer release()
	report("writing the disk", 0, 0)
	d, err := disks.Add(ctx, disk.Disk{Name: name, Arch: o.Arch, Guest: guest.ID, Made: time.Now().UTC().Truncate(time.Second)}, func(f *os.File) error {
		return disk.Write(f, disk.Parts{Guest: tree, Binary: binary, Arch: o.Arch})
	})
	if err != nil {
		return disk.Disk{}, &core.Error{Kind: core.KindOf(err), Op: "make the image of machines", Object: name, Err: err, Remedy: core.Remedy(err)}
	}
	return d, nil
}

// imageLsCommand returns the command `cloud image ls`.
func (a *Commands) imageLsCommand() *cobra.Command {
	var (
		asJSON bool
		sites  []string
	)
	c := &cobra.Command{
		Use: "ls", Short: "List the images for machines of clouds that are here, or at sites", Args: cobra.NoArgs,
		Long: `List the images for machines of clouds that are on this machine. With --site, list
those that bee has pushed to the clouds of these sites. The clouds are asked. A site
with image: bee:NAME boots the one of that name that was pushed last: of this
installation, or if it has none, of another one in the same account.`,
		Example: "  bee cloud image ls --json\n  bee cloud image ls --site aws",
		RunE: func(c *cobra.Command, _ []string) error {
			if len(sites) > 0 {
				return a.listPushed(c.Context(), sites, asJSON)
			}
			return a.listDisks(asJSON)
		},
	}
	a.siteFlag(c, &sites)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// listDisks lists the images on this machine.
func (a *Commands) listDisks(asJSON bool) error {
	s, err := a.disks()
	if err != nil {
		return err
	}
	list, err := s.List()
	if err != nil {
		return err
	}
	views := []diskView{}
	for _, d := range list {
		views = append(views, diskView{d, s.Path(d)})
	}
	if asJSON {
		return a.WriteJSON(views)
	}
	if len(views) == 0 {
		a.Say("there are no images for machines of clouds")
		return nil
	}
	w := a.On(a.Stdout).List(3)
	w.Row("NAME", "ID", "ARCH", "SIZE", "MADE", "FILE")
	for _, v := range views {
		w.Row(v.Name, v.Short(), v.Arch, console.BytesText(v.Size), v.Made.Local().Format("2006-01-02 15:04"), v.File)
	}
	return w.Flush()
}

// imageRmCommand returns the command `cloud image rm`.
func (a *Commands) imageRmCommand() *cobra.Command {
	var sites []string
	c := &cobra.Command{
		Use: "rm NAME...", Short: "Remove images for machines of clouds, here or at sites", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeDisks,
		Long: `Remove images for machines of clouds from this machine. What was pushed to a cloud
stays there. With --site, remove what this installation has pushed to the clouds of
these sites by that name, and nothing else: images with what they are made of.
Running machines continue. Sites with image: bee:NAME then boot the image of another
installation in the same account, which the history of a run says. If there is none of
that name, they rent no machines. While a push is under way, nothing is removed.`,
		Example: "  bee cloud image rm hpc\n  bee cloud image rm hpc --site aws",
		RunE: func(c *cobra.Command, args []string) error {
			if len(sites) > 0 {
				return a.removePushed(c.Context(), sites, args)
			}
			s, err := a.disks()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				errs = append(errs, s.Remove(c.Context(), name))
			}
			return errors.Join(errs...)
		},
	}
	a.siteFlag(c, &sites)
	return c
}

// completeDisks completes names of images.
func (a *Commands) completeDisks(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	s, err := a.disks()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := s.List()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, d := range list {
		names = append(names, cobra.CompletionWithDesc(d.Name, d.Arch+", "+console.BytesText(d.Size)))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
