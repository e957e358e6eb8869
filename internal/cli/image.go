package cli

import (
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

func (a *app) newImageCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "image", Aliases: []string{"images"}, Short: "Manage the image cache", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	all := anyImage()
	c.AddCommand(a.newImageLsCommand(all), a.newImageShowCommand(all), a.newImagePullCommand(all), a.newImageImportCommand(),
		a.newImageBuildCommand(), a.newImagePushCommand(all), a.newImageSaveCommand(all), a.newImageRmCommand(all), a.newImagePruneCommand())
	return c
}

// imageView is an image as --json gives it.
type imageView struct {
	ID     string           `json:"id"`
	Ref    string           `json:"ref"`
	Refs   []string         `json:"refs"`
	OS     string           `json:"os"`
	Arch   string           `json:"arch"`
	Size   int64            `json:"size_bytes"`
	Config core.ImageConfig `json:"config"`
	// Packages are the versions of a guest image's, where one image is shown.
	Packages map[string]string `json:"packages,omitempty"`
}

func newImageView(i core.Image, refs []string) imageView {
	if refs == nil {
		refs = []string{}
	}
	return imageView{ID: i.ID, Ref: i.Ref, Refs: refs, OS: i.OS, Arch: i.Arch, Size: i.Size, Config: i.Config}
}

// names are what people call an image: the files that it came from count where it has no
// other name.
func (v imageView) names() []string {
	if called := slices.DeleteFunc(slices.Clone(v.Refs), spec.IsLocalImage); len(called) > 0 {
		return called
	}
	return v.Refs
}

// imageViews adds all names to images.
func imageViews(s *image.Store, list ...core.Image) ([]imageView, error) {
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	views := make([]imageView, len(list))
	for n, i := range list {
		views[n] = newImageView(i, names[i.ID])
	}
	return views, nil
}

// naming is the name of one's own that an image shall have.
type naming struct{ name, platform string }

func (n *naming) flag(c *cobra.Command) {
	c.Flags().StringVar(&n.name, tagName, "", "`NAME` for the image in Beefiles, such as my-app:1.0; another image loses the name")
}

const tagName = "tag"

func (n *naming) check() error {
	if n.name == "" {
		return nil
	}
	return spec.CheckName("--"+tagName, n.name)
}

// imageProgress gives what shows how far the getting of images is, and what ends that.
func (a *app) imageProgress() (report func(message string, done, total int64), done func()) {
	ui := console.NewProgress(a.Console, false)
	return func(message string, done, total int64) {
		ui.Report(plan.Event{Message: message, Done: done, Total: total})
	}, ui.Clear
}

// bring runs what gets an image, with progress, names it, and says what came.
func (a *app) bring(asJSON bool, n naming, get func(s *image.Store, report func(string, int64, int64)) (core.Image, error)) error {
	if err := n.check(); err != nil {
		return err
	}
	s, err := a.OpenImages()
	if err != nil {
		return err
	}
	report, done := a.imageProgress()
	i, err := get(s, report)
	done()
	if err == nil && n.name != "" {
		err = s.Name(i.ID, n.name, n.platform)
	}
	if err != nil {
		return err
	}
	if asJSON {
		views, err := imageViews(s, i)
		if err != nil {
			return err
		}
		return a.WriteJSON(views[0])
	}
	if _, err := fmt.Fprintln(a.Stdout, i.ID); err != nil {
		return err
	}
	if n.name != "" {
		a.printName(n.name, i.ID)
	}
	return nil
}

// printName says what an image is called from now on.
func (a *app) printName(name, id string) {
	a.Say("%s is %s", name, shortID(id))
}

// shortID is an id as lists show it.
func shortID(id string) string { return id[7:19] }
