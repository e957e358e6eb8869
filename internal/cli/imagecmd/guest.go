package imagecmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/spf13/cobra"
)

// VMImageCommand returns the command `vm image`, where people look for guest images. These
// are images like any other in the cache.
func (a *Commands) VMImageCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "image", Short: "Manage guest images in the image cache", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	g := GuestImages()
	images := a
	c.AddCommand(a.VMBuildCommand(), images.LsCommand(g), images.ShowCommand(g), images.PullCommand(g), images.PushCommand(g), images.RmCommand(g))
	return c
}

// VMBuildCommand returns the command `vm build`.
func (a *Commands) VMBuildCommand() *cobra.Command {
	var (
		asJSON, again bool
		copies        []string
		repository    string
		o             build.Options
		n             Naming
	)
	c := &cobra.Command{
		Use: "build", Short: "Build a guest image of Debian packages, without root and without a virtual machine",
		Long: `Build a guest image of Debian packages, without root and without a virtual
machine: kernel, Docker, NFS and RDMA. Runs build the default image by themselves.
Use this to build ahead, or for your own images. A Beefile names such an image
(vm: {image: NAME}) by its --tag, by its pushed reference, or by its id.`,
		Example: "  bee vm build\n  bee vm build --package htop --snapshot 20250520T000000Z --tag guest-with-htop",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Arch != "amd64" && o.Arch != "arm64" {
				return &core.Error{Kind: core.Invalid, Op: "read --arch", Object: o.Arch, Err: errors.New("there are no guests of that architecture"), Remedy: "Say amd64 or arm64."}
			}
			err := o.Check()
			if err != nil {
				return err
			}
			if o.Copy, err = parseCopies(copies); err != nil {
				return err
			}
			for flag, files := range map[string][]string{"--docker-deb": o.DockerPackages, "--script": o.Scripts} {
				for i, file := range files {
					if files[i], err = present(flag, file); err != nil {
						return err
					}
				}
			}
			if repository != "" {
				if o.DockerRepository, err = build.ParseRepository(repository); err != nil {
					return err
				}
				if key := o.DockerRepository.Key; key != "" {
					if _, err := present("signed-by of --docker-repository", key); err != nil {
						return err
					}
				}
			}
			policy := "missing"
			if again {
				policy = "always"
			}
			recipe := build.Recipe(o)
			n.Platform = "linux/" + o.Arch
			return a.Bring(asJSON, n, func(s *image.Store, report func(string, int64, int64)) (core.Image, error) {
				return s.Resolve(c.Context(), &spec.Job{Name: "guest", Build: &recipe, Dir: workspace.WorkingDir()}, o.Arch, policy, report)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.Arch, "arch", runtime.GOARCH, "`architecture`: amd64 or arm64; another than this host's needs qemu-user")
	f.StringVar(&o.Suite, "suite", "bookworm", "Debian `suite`")
	f.StringVar(&o.Snapshot, "snapshot", "", "`date` such as 20250520T000000Z, for the same image bit by bit")
	f.StringVar(&o.Mirror, "mirror", "", "Debian mirror's `URL` (default: this host's own, or with --snapshot snapshot.debian.org)")
	f.StringArrayVar(&o.Packages, "package", nil, "further Debian `package`")
	f.StringArrayVar(&o.Run, "run", nil, "shell `command` to run in it, as its root")
	f.StringArrayVar(&o.Scripts, "script", nil, "`FILE` to run in it, as its root, after what --run has: by the interpreter that its first line names, else by sh -e")
	f.StringVar(&o.User, "user", "", "`NAME` or NAME:UID of a further account, which may use docker")
	f.StringVar(&o.Proxy, "proxy", "", "`URL` by which docker and people in the guest reach the web")
	f.StringVar(&o.NoProxy, "no-proxy", "", "`HOSTS`, with commas, that they reach without it")
	f.StringArrayVar(&o.DockerPackages, "docker-deb", nil, "`FILE` of a package of Docker's own, in place of Debian's")
	f.StringVar(&repository, "docker-repository", "", "`LINE` of apt's sources.list, 'deb [signed-by=KEY-FILE] URL SUITE COMPONENT': its docker-ce in place of Debian's docker")
	f.StringArrayVar(&copies, "copy", nil, "`SOURCE:TARGET`, a file or directory to put into it")
	n.Flag(c)
	f.BoolVar(&again, "again", false, "build even if the cache has the result of the same inputs")
	f.BoolVar(&asJSON, "json", false, console.JSONHelp)
	c.MarkFlagsMutuallyExclusive("docker-deb", "docker-repository")
	return c
}

// bundleScript starts a bundle's QEMU from wherever it lies, also by a link to it from a
// directory of PATH.
const bundleScript = `#!/bin/sh
d=$(dirname "$(readlink -f "$0")")
QEMU_MODULE_DIR=$d/modules exec "$d/loader" --library-path "$d/lib" "$d/qemu" -L "$d/share" "$@"
`

// VMBundleCommand returns the command `vm bundle`.
func (a *Commands) VMBundleCommand() *cobra.Command {
	return &cobra.Command{
		Use: "bundle DIRECTORY", Short: "Write a QEMU that runs from any directory of any Linux host",
		Long: `Write a QEMU that runs from any directory of any Linux host of this
architecture. It has its own loader, libraries, modules and firmware, of Debian's
packages. Runs do not need it: the guest image has one, for hosts without QEMU.
Use this to try it by hand.`,
		Example: "  bee vm bundle ./qemu && ./qemu/qemu-system-x86_64 --version",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := workspace.Unused("write QEMU into", args[0]); err != nil {
				return err
			}
			store, err := a.OpenImages()
			if err != nil {
				return err
			}
			recipe := build.Recipe(build.Options{Arch: runtime.GOARCH})
			report, done := a.Progress()
			i, err := store.Resolve(c.Context(), &spec.Job{Name: "guest", Build: &recipe, Dir: workspace.WorkingDir()}, runtime.GOARCH, "missing", report)
			done()
			if err != nil {
				return err
			}
			tree, release, err := store.Tree(c.Context(), i.ID)
			if err != nil {
				return err
			}
			defer release()
			if err := treesync.Copy(c.Context(), filepath.Join(tree, "qemu"), args[0], nil); err != nil {
				return err
			}
			program := filepath.Join(args[0], qemu.Program())
			if err := os.WriteFile(program, []byte(bundleScript), 0o755); err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.Stdout, program)
			return err
		},
	}
}
