package imagecmd

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

func (a *Commands) newImageSaveCommand(g Group) *cobra.Command {
	var file, format string
	c := &cobra.Command{
		Use: "save IMAGE --output FILE", Short: "Write a cached image as an archive, for docker, podman and others", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeImages(g),
		Long: `Write a cached image as an archive under the given name. An image of a registry
keeps its own layers; any other is written as one layer. "docker load" and "podman load"
read docker-archive; oci-archive is an archive of an OCI layout.`,
		Example: "  bee image save tool:1 -o tool.tar\n  bee image save tool:1 --format oci-archive -o - | ssh host podman load",
		RunE: func(c *cobra.Command, args []string) error {
			if file == "" {
				return &core.Error{Kind: core.Invalid, Op: "save image", Object: args[0], Err: errors.New("no file is named"), Remedy: "Add `--output FILE`, or `--output -` for standard output."}
			}
			s, err := a.OpenImages()
			if err != nil {
				return err
			}
			i, err := g.find(s, c.Name(), args[0])
			if err != nil {
				return err
			}
			called := args[0]
			if spec.CheckName("", called) != nil { // an id, or a path
				called = i.Ref
			}
			report, done := a.Progress()
			defer done()
			report("saving "+called, 0, 0)
			save := func(w io.Writer) error { return s.Save(c.Context(), i.ID, called, format, w) }
			if file == "-" {
				return a.saveToOutput(args[0], save)
			}
			return saveToFile(file, save)
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "", "`FILE` to write; - is standard output")
	c.Flags().StringVar(&format, "format", image.DockerArchive, "`format`: "+image.DockerArchive+" or "+image.OCIArchive)
	return c
}

// saveToOutput writes to standard output, but to no terminal.
func (a *Commands) saveToOutput(object string, save func(io.Writer) error) error {
	if f, is := a.Stdout.(*os.File); is && term.IsTerminal(int(f.Fd())) {
		return &core.Error{Kind: core.Invalid, Op: "save image", Object: object, Err: errors.New("standard output is a terminal"), Remedy: "Name a file by `--output FILE`."}
	}
	return save(a.Stdout)
}

// saveToFile writes a file whole, or not at all.
func saveToFile(file string, save func(io.Writer) error) error {
	f, err := fsutil.Create(file, 0o644)
	if err != nil {
		return &core.Error{Kind: core.Permanent, Op: "save image", Object: file, Err: err, Remedy: "Name a file in a directory in which you may write."}
	}
	defer f.Discard()
	b := bufio.NewWriter(f)
	if err := save(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return f.Commit()
}
