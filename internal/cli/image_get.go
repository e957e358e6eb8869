package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

func (a *app) newImagePullCommand() *cobra.Command {
	var asJSON bool
	o := image.PullOptions{Policy: "always"}
	c := &cobra.Command{
		Use: "pull IMAGE", Short: "Fetch an image, or look whether its tag means another now", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.pull(c.Context(), asJSON, args[0], o)
		},
	}
	platformFlag(c, &o)
	insecureFlag(c, &o)
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}

const platformName = "platform"

func platformFlag(c *cobra.Command, o *image.PullOptions) {
	c.Flags().StringVar(&o.Platform, platformName, "", "such as linux/arm64 (default this machine's)")
}

// pull brings an image that is named as in a Beefile of the working directory.
func (a *app) pull(ctx context.Context, asJSON bool, ref string, o image.PullOptions) error {
	if err := spec.CheckPlatform("--"+platformName, o.Platform); err != nil {
		return err
	}
	return a.bring(asJSON, func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
		o.Progress = report
		return s.Pull(ctx, spec.ImageFrom(workingDir(), ref), o)
	})
}

func insecureFlag(c *cobra.Command, o *image.PullOptions) {
	c.Flags().BoolVar(&o.Insecure, "insecure", false, "allow a registry without TLS, or with a certificate that nobody vouches for")
}

func (a *app) newImageImportCommand() *cobra.Command {
	var asJSON bool
	var o image.PullOptions
	c := &cobra.Command{
		Use: "import FILE", Short: "Take in an archive of docker or podman, or an OCI layout directory", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			scheme := "docker-archive:"
			if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
				scheme = "oci:"
			}
			return a.pull(c.Context(), asJSON, scheme+args[0], o)
		},
	}
	platformFlag(c, &o)
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}

func (a *app) newImageBuildCommand() *cobra.Command {
	var asJSON, again bool
	c := &cobra.Command{
		Use: "build BEEFILE", Short: "Build the image that a Beefile's build: describes", Args: cobra.ExactArgs(1),
		Long: `Build the image that a Beefile's build: describes. Debian packages are put together
by mmdebstrap; a Dockerfile is built by buildah, podman or docker, whichever is
installed here, or by the docker of a virtual machine where none is, or where the
Beefile says so (build: {builder: vm}). None of that needs root.`,
		RunE: func(c *cobra.Command, args []string) error {
			job, err := spec.LoadJob(args[0])
			if err != nil {
				return err
			}
			policy := "missing"
			if again {
				policy = "always"
			}
			ctx, done := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer done()
			context.AfterFunc(ctx, done) // a second one does not wait for the clean-up
			err = a.bring(asJSON, func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				return s.Resolve(ctx, job, runtime.GOARCH, policy, report)
			})
			if err != nil && ctx.Err() != nil {
				return &core.Error{Kind: core.Stopped, Op: "build the image of", Object: args[0], Err: context.Cause(ctx)}
			}
			return err
		},
	}
	c.Flags().BoolVar(&again, "again", false, "build even if the cache has the result of the same inputs")
	c.Flags().BoolVar(&asJSON, "json", false, jsonHelp)
	return c
}
