package imagecmd

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

// Command returns the command `image`.
func (a *Commands) Command() *cobra.Command {
	c := &cobra.Command{
		Use: "image", Aliases: []string{"images"}, Short: "Manage the image cache", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	all := anyImage()
	c.AddCommand(a.LsCommand(all), a.ShowCommand(all), a.PullCommand(all), a.newImageImportCommand(),
		a.newImageBuildCommand(), a.PushCommand(all), a.newImageSaveCommand(all), a.RmCommand(all), a.newImagePruneCommand())
	return c
}

// View is an image as --json gives it.
type View struct {
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

func newImageView(i core.Image, refs []string) View {
	if refs == nil {
		refs = []string{}
	}
	return View{ID: i.ID, Ref: i.Ref, Refs: refs, OS: i.OS, Arch: i.Arch, Size: i.Size, Config: i.Config}
}

// names are what people call an image: the files that it came from count where it has no
// other name.
func (v View) names() []string {
	if called := slices.DeleteFunc(slices.Clone(v.Refs), spec.IsLocalImage); len(called) > 0 {
		return called
	}
	return v.Refs
}

// imageViews adds all names to images.
func imageViews(s *image.Store, list ...core.Image) ([]View, error) {
	names, err := s.Names()
	if err != nil {
		return nil, err
	}
	views := make([]View, len(list))
	for n, i := range list {
		views[n] = newImageView(i, names[i.ID])
	}
	return views, nil
}

// Naming is the name of one's own that an image shall have.
type Naming struct{ Name, Platform string }

// Flag adds --tag to the flags of a command.
func (n *Naming) Flag(c *cobra.Command) {
	c.Flags().StringVar(&n.Name, tagName, "", "`NAME` for the image in Beefiles, such as my-app:1.0; another image loses the name")
}

const tagName = "tag"

func (n *Naming) check() error {
	if n.Name == "" {
		return nil
	}
	return spec.CheckName("--"+tagName, n.Name)
}

// Progress gives what shows how far the getting of images is, and what ends that.
func (a *Commands) Progress() (report func(message string, done, total int64), done func()) {
	ui := console.NewProgress(a.Console, false)
	return func(message string, done, total int64) {
		ui.Report(plan.Event{Message: message, Done: done, Total: total})
	}, ui.Clear
}

// Bring runs what gets an image, with progress, names it, and says what came.
func (a *Commands) Bring(asJSON bool, n Naming, get func(s *image.Store, report func(string, int64, int64)) (core.Image, error)) error {
	if err := n.check(); err != nil {
		return err
	}
	s, err := a.OpenImages()
	if err != nil {
		return err
	}
	report, done := a.Progress()
	i, err := get(s, report)
	done()
	if err == nil && n.Name != "" {
		err = s.Name(i.ID, n.Name, n.Platform)
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
	if n.Name != "" {
		a.printName(n.Name, i.ID)
	}
	return nil
}

// printName says what an image is called from now on.
func (a *Commands) printName(name, id string) {
	a.Say("%s is %s", name, ShortID(id))
}

// ShortID is an id as lists show it.
func ShortID(id string) string { return id[7:19] }
