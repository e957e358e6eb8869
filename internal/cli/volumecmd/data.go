package volumecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
	"github.com/spf13/cobra"
)

// DataCommand returns the command `data`.
func (a *Commands) DataCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "data", Short: "Fill, empty and list data images: volumes in one file", Args: cobra.NoArgs,
		Long: `A data image is a disk image with an ext4 file system: a directory in one file,
which a virtual machine can attach. These commands need neither root nor a
virtual machine. Loading needs e2fsprogs.`,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.newDataLoadCommand(), a.newDataUnloadCommand(), a.newDataLsCommand())
	return c
}

// dataView is a data image, as --json prints it.
type dataView struct {
	Image string `json:"image"`
	// Digest is that of the content: names, permissions and bytes.
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // bytes, used or not
	Free   int64  `json:"free"`
	// Files is there for ls only.
	Files []dataimage.File `json:"files,omitempty"`
}

func (a *Commands) newDataLoadCommand() *cobra.Command {
	var asJSON, force bool
	var size string
	c := &cobra.Command{
		Use: "load IMAGE DIR", Short: "Make a data image of a directory, and print the digest of its contents",
		Example: "  bee data load --size 50G inputs.img ./inputs", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			image, dir := args[0], args[1]
			bytes, err := spec.ParseSize(size)
			if err != nil {
				return &core.Error{Kind: core.Invalid, Op: "read --size", Object: size, Err: err, Remedy: "Such as 512M or 50G."}
			}
			if dir, err = toLoad(image, dir); err != nil {
				return err
			}
			if _, err := os.Lstat(image); err == nil && !force {
				return &core.Error{Kind: core.Busy, Op: "make data image", Object: image, Err: fs.ErrExist, Remedy: "Give another name, or --force to replace it."}
			}
			before, err := "", dataimage.Fits(image, dir, bytes)
			if err == nil {
				before, err = dataimage.DigestOf(c.Context(), dir)
			}
			if errors.Is(err, fs.ErrPermission) {
				return &core.Error{Kind: core.Invalid, Op: "load directory", Object: dir, Err: err, Remedy: "All of it goes into the image: make it readable, or move it out of the directory."}
			} else if err != nil {
				return err
			}
			tools := dataimage.Tools{}
			ctx, done := console.UntilInterrupt(c.Context())
			defer done()
			if err := tools.Make(ctx, image, dir, bytes); err != nil && ctx.Err() != nil {
				return &core.Error{Kind: core.Stopped, Op: "make data image", Object: image, Err: context.Cause(ctx)}
			} else if err != nil {
				return err
			}
			v, err := viewData(c.Context(), tools, image, true)
			if err != nil {
				return err
			}
			if v.Digest != before {
				return &core.Error{
					Kind: core.Permanent, Op: "load directory", Object: dir, Err: fmt.Errorf("the image holds %s, and the directory held %s", v.Digest, before),
					Remedy: "Did something change the directory meanwhile? Load it again with --force.",
				}
			}
			return a.printData(v, asJSON)
		},
	}
	c.Flags().StringVar(&size, "size", "", "the image's `size`, such as 50G (default: what the directory needs)")
	c.Flags().BoolVar(&force, "force", false, "replace an image of that name")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// toLoad gives the directory that is meant, which links may lead to. An image in it would
// be a part of what it holds.
func toLoad(image, dir string) (string, error) {
	refuse := func(why, remedy string) (string, error) {
		return "", &core.Error{Kind: core.Invalid, Op: "load directory", Object: dir, Err: errors.New(why), Remedy: remedy}
	}
	const order = "The image comes first: `bee data load IMAGE DIR`."
	switch info, err := os.Stat(dir); {
	case err != nil:
		return refuse("there is no such directory", order)
	case !info.IsDir():
		return refuse("it is no directory", order)
	}
	meant, err := realPath(dir)
	if err != nil {
		return "", err
	}
	parent, err := realPath(filepath.Dir(image))
	if err != nil { // making the image reports what is wrong with its place
		return meant, nil
	}
	if below, err := filepath.Rel(meant, parent); err == nil && filepath.IsLocal(below) {
		return refuse("the image "+image+" would lie in it", "Name a place outside of the directory for the image.")
	}
	return meant, nil
}

// realPath is a path from the root without links.
func realPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(name)
}

func (a *Commands) newDataUnloadCommand() *cobra.Command {
	var asJSON bool
	var digest string
	var paths []string
	c := &cobra.Command{
		Use: "unload IMAGE DIR", Short: "Copy the contents of a data image into a directory",
		Example: "  bee data unload volume.img ./results\n  bee data unload --path '*.log' volume.img ./logs", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			image, dir := args[0], args[1]
			if err := workspace.Unused("empty data image into", dir); err != nil {
				return err
			}
			tools := dataimage.Tools{}
			v, err := viewData(c.Context(), tools, image, true)
			if err != nil {
				return err
			}
			if digest != "" && v.Digest != digest {
				return &core.Error{Kind: core.Permanent, Op: "empty data image", Object: image, Err: fmt.Errorf("it holds %s, and not %s", v.Digest, digest), Remedy: "It was changed, or damaged on its way. Copy it again."}
			}
			i, err := dataimage.Open(image)
			if err != nil {
				return err
			}
			defer i.Close()
			if err := somethingMatches(c.Context(), i, image, paths); err != nil {
				return err
			}
			if err := i.Unload(c.Context(), dir, paths); err != nil {
				return err
			}
			if len(paths) == 0 {
				want, err := i.DigestUnloaded(c.Context())
				if err != nil {
					return err
				}
				after, err := dataimage.DigestOf(c.Context(), dir)
				if err == nil && after != want {
					err = &core.Error{
						Kind: core.Permanent, Op: "empty data image into", Object: dir, Err: fmt.Errorf("the directory holds %s, and the image %s", after, want),
						Remedy: "Was it written to meanwhile? Devices and sockets stay behind.",
					}
				}
				if err != nil {
					return err
				}
			}
			return a.printData(v, asJSON)
		},
	}
	c.Flags().StringVar(&digest, "digest", "", "refuse an image whose contents have another `digest`, as load prints it")
	c.Flags().StringArrayVar(&paths, "path", nil, "only files that match this `pattern`, and files below them (repeatable)")
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// somethingMatches refuses patterns that match nothing in an image: a slip of the pen
// would pass for an empty result.
func somethingMatches(ctx context.Context, i *dataimage.Image, image string, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	files, err := i.Files(ctx)
	if err != nil {
		return err
	}
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return &core.Error{Kind: core.Invalid, Op: "read --path", Object: p, Err: err, Remedy: "A pattern such as '*.log' or 'day[12]/*'."}
		}
		if !slices.ContainsFunc(files, func(f dataimage.File) bool { is, _ := path.Match(p, f.Path); return is }) {
			return &core.Error{Kind: core.NotFound, Op: "empty data image", Object: image, Err: fmt.Errorf("nothing in it matches %q", p), Remedy: "`bee data ls " + image + "` lists what it holds."}
		}
	}
	return nil
}

func (a *Commands) newDataLsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ls IMAGE", Short: "List the contents of a data image", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			tools := dataimage.Tools{}
			i, err := tools.OpenRecovered(c.Context(), args[0])
			if err != nil {
				return err
			}
			defer i.Close()
			files, err := i.Files(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				v, err := viewData(c.Context(), tools, args[0], false)
				if err != nil {
					return err
				}
				v.Files = files
				return a.WriteJSON(v)
			}
			w := tabwriter.NewWriter(a.Stdout, 0, 0, 1, ' ', tabwriter.AlignRight)
			for _, f := range files {
				name := f.Path
				if f.Kind == "link" {
					name += " -> " + f.Target
				}
				name = strings.ReplaceAll(output.Printable(name), "\n", `\n`) // a line for each
				if _, err := fmt.Fprintf(w, "%s\t%d\t%s\t %s\n", f.Mode, f.Size, f.Modified, name); err != nil {
					return err
				}
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// viewData looks an image over, and its file system where e2fsck is there.
func viewData(ctx context.Context, tools dataimage.Tools, image string, check bool) (dataView, error) {
	i, err := tools.OpenRecovered(ctx, image)
	if err != nil {
		return dataView{}, err
	}
	defer i.Close()
	if check {
		if err := tools.Check(ctx, image); err != nil && !core.IsKind(err, core.Unsupported) {
			return dataView{}, err
		}
	}
	digest, err := i.Digest(ctx)
	return dataView{Image: image, Digest: digest, Size: i.Size(), Free: i.Free()}, err
}

func (a *Commands) printData(v dataView, asJSON bool) error {
	if asJSON {
		return a.WriteJSON(v)
	}
	_, err := fmt.Fprintln(a.Stdout, v.Digest)
	return err
}
