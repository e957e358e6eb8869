package setupcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// ConvertCommand returns the command `convert`.
func (a *Commands) ConvertCommand() *cobra.Command {
	var out, sites string
	c := &cobra.Command{
		Use: "convert FILE", Short: "Convert a Beefile of the original BEE launcher", Args: cobra.ExactArgs(1),
		Long: `Convert the JSON Beefile of the original BEE launcher into a Beefile, and its
machines into a sites file. Its scripts are expected beside the new Beefile. Parts
that cannot be converted are listed, with the reason, on standard error.`,
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := os.ReadFile(args[0])
			if err != nil {
				return spec.FileError("Beefile of the original BEE launcher", args[0], err)
			}
			made, err := spec.Convert(args[0], data)
			if err != nil {
				return err
			}
			for _, n := range made.Notes {
				a.Say("note: %s", n)
			}
			if made.Sites != "" {
				if err := writeNew(sites, made.Sites, 0o644); err != nil {
					return err
				}
				a.Say("its machines are in %s: use it with --sites", sites)
			}
			if out == "" {
				_, err = fmt.Fprint(a.Stdout, made.Beefile)
				return err
			}
			return writeNew(out, made.Beefile, 0o644)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "write the Beefile to this `file` (default standard output)")
	c.Flags().StringVar(&sites, "sites-output", "sites.yaml", "write the sites file, if there are machines, to this `file`")
	return c
}

// existing is the error for a file that is not overwritten.
func existing(path string) error {
	return &core.Error{Kind: core.Invalid, Op: "write", Object: path, Err: errors.New("it exists already"), Remedy: "Name another file by --output, or remove it first."}
}

// writeNew writes a file that must not exist yet: no one's work is lost.
func writeNew(path, text string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return existing(path)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}
