package imagecmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// PullCommand returns the command `pull`.
func (a *Commands) PullCommand(g Group) *cobra.Command {
	var asJSON bool
	o := image.PullOptions{Policy: "always"}
	c := &cobra.Command{
		Use: "pull IMAGE", Short: "Pull an image, or check whether its tag has changed", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := spec.CheckPlatform("--"+platformName, o.Platform); err != nil {
				return err
			}
			o.Accept = g.accept(c.Name())
			return a.Bring(asJSON, Naming{}, func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				o.Progress = report
				return s.Pull(c.Context(), spec.ImageFrom(workspace.WorkingDir(), args[0]), o)
			})
		},
	}
	platformFlag(c, &o)
	insecureFlag(c, &o)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

const platformName = "platform"

func platformFlag(c *cobra.Command, o *image.PullOptions) {
	c.Flags().StringVar(&o.Platform, platformName, "", "`platform`, such as linux/arm64 (default this machine's)")
}

func insecureFlag(c *cobra.Command, o *image.PullOptions) {
	c.Flags().BoolVar(&o.Insecure, "insecure", false, "allow a registry without TLS, or with an unknown certificate")
}

func (a *Commands) newImageImportCommand() *cobra.Command {
	var asJSON bool
	var o image.PullOptions
	c := &cobra.Command{
		Use: "import FILE", Short: "Import the images of an archive of docker or podman, or of an OCI layout", Args: cobra.ExactArgs(1),
		Long: `Import the images of an archive of docker or podman, or of an OCI layout
directory, under their names there. FILE:NAME imports one image.`,
		Example: "  bee image import ./app.tar\n  bee image import ./apps.tar:app:1.0",
		RunE: func(c *cobra.Command, args []string) error {
			if err := spec.CheckPlatform("--"+platformName, o.Platform); err != nil {
				return err
			}
			s, err := a.OpenImages()
			if err != nil {
				return err
			}
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			report, done := a.Progress()
			o.Progress = report
			came, err := s.Import(c.Context(), path, o)
			done()
			if err != nil && len(came) == 0 {
				return err
			}
			return errors.Join(a.printImported(asJSON, s, came), err)
		},
	}
	platformFlag(c, &o)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// printImported says which images came, and what they are called.
func (a *Commands) printImported(asJSON bool, s *image.Store, came []image.Imported) error {
	if asJSON {
		var list []core.Image
		for _, i := range came {
			list = append(list, i.Image)
		}
		views, err := imageViews(s, list...)
		if err != nil {
			return err
		}
		return a.WriteJSON(views)
	}
	for _, i := range came {
		if _, err := fmt.Fprintln(a.Stdout, i.ID); err != nil {
			return err
		}
		for _, name := range i.Names {
			a.printName(name, i.ID)
		}
	}
	return nil
}

func (a *Commands) newImageBuildCommand() *cobra.Command {
	var asJSON, again bool
	var n Naming
	var t console.Trust
	c := &cobra.Command{
		Use: "build BEEFILE", Short: "Build the image that a Beefile's build: describes", Args: cobra.ExactArgs(1),
		Long: `Build the image that a Beefile's build: describes. mmdebstrap builds images of
Debian packages. The first of buildah, podman and docker that is installed builds
a Dockerfile. Without one, or with build: {builder: vm}, Docker in a virtual
machine builds it. Nothing of that needs root.`,
		RunE: func(c *cobra.Command, args []string) error {
			job, err := spec.LoadJob(args[0])
			if err != nil {
				return err
			}
			of := spec.Job{Dir: job.Dir, Image: job.Image, Build: job.Build} // nothing else of it is used
			strange := console.StrangerOf(args[0])
			if err := a.Allow(args[0], strange, console.ReachesOf(&of, strange), t, false); err != nil {
				return err
			}
			policy := "missing"
			if again {
				policy = "always"
			}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			n.Platform = job.Platform
			err = a.Bring(asJSON, n, func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				return s.Resolve(ctx, job, runtime.GOARCH, policy, report)
			})
			if err != nil && ctx.Err() != nil {
				return &core.Error{Kind: core.Stopped, Op: "build the image of", Object: args[0], Err: context.Cause(ctx)}
			}
			return err
		},
	}
	n.Flag(c)
	t.Flag(c.Flags(), "the Beefile")
	c.Flags().BoolVar(&again, "again", false, "build even if the cache has the result of the same inputs")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}
