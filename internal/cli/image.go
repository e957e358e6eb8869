package cli

import (
	"fmt"
	"os"
	"runtime"
	"text/tabwriter"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

func (a *app) newImageCommand() *cobra.Command {
	c := &cobra.Command{Use: "image", Aliases: []string{"images"}, Short: "Look after the image cache", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(a.newImageLsCommand(), a.newImageShowCommand(), a.newImagePullCommand(), a.newImageImportCommand(),
		a.newImageBuildCommand(), a.newImagePushCommand(), a.newImageRmCommand(), a.newImagePruneCommand())
	return c
}

func (a *app) openImages() (*image.Store, error) {
	if err := a.paths(); err != nil {
		return nil, err
	}
	return image.Open(a.cacheDir, a.log())
}

// imageView is an image as --json gives it.
type imageView struct {
	ID     string           `json:"id"`
	Ref    string           `json:"ref"`
	OS     string           `json:"os"`
	Arch   string           `json:"arch"`
	Size   int64            `json:"size_bytes"`
	Config core.ImageConfig `json:"config"`
}

func viewImage(i core.Image) imageView {
	return imageView{i.ID, i.Ref, i.OS, i.Arch, i.Size, i.Config}
}

func (a *app) newImageLsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "ls", Short: "List the images in the cache", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := a.openImages()
			if err != nil {
				return err
			}
			list, err := s.List()
			if err != nil {
				return err
			}
			if asJSON {
				views := make([]imageView, len(list))
				for i := range list {
					views[i] = viewImage(list[i])
				}
				return a.writeJSON(views)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "IMAGE\tID\tPLATFORM\tSIZE")
			for _, i := range list {
				fmt.Fprintf(w, "%s\t%s\t%s/%s\t%s\n", i.Ref, i.ID[7:19], i.OS, i.Arch, bytesText(i.Size))
			}
			return w.Flush()
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (a *app) newImageShowCommand() *cobra.Command {
	return &cobra.Command{Use: "show IMAGE", Short: "Show what an image is, as JSON", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.openImages()
			if err != nil {
				return err
			}
			i, err := s.Get(args[0])
			if err != nil {
				return err
			}
			return a.writeJSON(viewImage(i))
		}}
}

// bring runs what gets an image, with progress, and says what came.
func (a *app) bring(get func(s *image.Store, report func(string, int64, int64)) (core.Image, error)) error {
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
	fmt.Fprintln(a.stdout, i.ID)
	return nil
}

func (a *app) newImagePullCommand() *cobra.Command {
	var platform string
	c := &cobra.Command{Use: "pull IMAGE", Short: "Fetch an image, or look whether its tag means another now", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.bring(func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				return s.Pull(c.Context(), image.AbsRef(args[0], workingDir()), image.PullOptions{Platform: platform, Policy: "always", Progress: report})
			})
		}}
	c.Flags().StringVar(&platform, "platform", "", "such as linux/arm64 (default this machine's)")
	return c
}

func (a *app) newImageImportCommand() *cobra.Command {
	return &cobra.Command{Use: "import FILE", Short: "Take in a docker-archive, or an OCI layout directory", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			scheme := "docker-archive:"
			if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
				scheme = "oci:"
			}
			return a.bring(func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				return s.Pull(c.Context(), image.AbsRef(scheme+args[0], workingDir()), image.PullOptions{Progress: report})
			})
		}}
}

func (a *app) newImageBuildCommand() *cobra.Command {
	return &cobra.Command{Use: "build BEEFILE", Short: "Build the image that a Beefile's build: describes", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			job, err := spec.LoadJob(args[0])
			if err != nil {
				return err
			}
			return a.bring(func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				return s.Resolve(c.Context(), job, runtime.GOARCH, "missing", report)
			})
		}}
}

func (a *app) newImagePushCommand() *cobra.Command {
	return &cobra.Command{Use: "push IMAGE REFERENCE", Short: "Send a cached image to a registry", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.bring(func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				i, err := s.Get(args[0])
				if err != nil {
					return i, err
				}
				return i, s.Push(c.Context(), i.ID, args[1], report)
			})
		}}
}

func (a *app) newImageRmCommand() *cobra.Command {
	return &cobra.Command{Use: "rm IMAGE...", Short: "Remove images that no run uses", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.openImages()
			if err != nil {
				return err
			}
			for _, word := range args {
				i, err := s.Get(word)
				if err != nil {
					return err
				}
				if err := s.Remove(i.ID); err != nil {
					return err
				}
				fmt.Fprintln(a.stdout, i.ID)
			}
			return nil
		}}
}

func (a *app) newImagePruneCommand() *cobra.Command {
	return &cobra.Command{Use: "prune", Short: "Remove every image that no run uses, and what died in the making", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.openImages()
			if err != nil {
				return err
			}
			freed, err := s.Prune(c.Context())
			for _, i := range freed {
				fmt.Fprintf(a.stdout, "%s\t%s\n", i.ID, i.Ref)
			}
			return err
		}}
}

func workingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}
