package cli

import (
	"fmt"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

func (a *app) newImageCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "image", Aliases: []string{"images"}, Short: "Look after the image cache", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newImageLsCommand(), a.newImageShowCommand(), a.newImagePullCommand(), a.newImageImportCommand(),
		a.newImageBuildCommand(), a.newImagePushCommand(), a.newImageRmCommand(), a.newImagePruneCommand())
	return c
}

func (a *app) openImages() (*image.Store, error) {
	if err := a.paths(); err != nil {
		return nil, err
	}
	s, err := image.Open(a.cacheDir, a.log())
	if err == nil {
		s.BuildInGuest = a.buildInGuest
	}
	return s, err
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

// bring runs what gets an image, with progress, and says what came.
func (a *app) bring(asJSON bool, get func(s *image.Store, report func(string, int64, int64)) (core.Image, error)) error {
	s, err := a.openImages()
	if err != nil {
		return err
	}
	ui := newProgress(a, false)
	i, err := get(s, func(message string, done, total int64) {
		ui.report(protocol.Event{Message: message, Done: done, Total: total})
	})
	ui.clear()
	if err != nil {
		return err
	}
	if asJSON {
		views, err := imageViews(s, i)
		if err != nil {
			return err
		}
		return a.writeJSON(views[0])
	}
	_, err = fmt.Fprintln(a.stdout, i.ID)
	return err
}

// cached finds an image in the cache, named as in a Beefile of the working directory.
func cached(s *image.Store, word string) (core.Image, error) {
	return s.Get(spec.ImageFrom(workingDir(), word))
}

func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

const jsonHelp = "write JSON"
