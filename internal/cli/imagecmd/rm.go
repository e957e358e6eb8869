package imagecmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// openRemover opens the image cache to remove from it. Images that runs continue with stay:
// one that is built once more may not be the same, and the registry of one that is pulled may
// be gone.
func (a *Commands) openRemover(ctx context.Context) (r image.Remover, err error) {
	if r.Cache, err = a.OpenImages(); err != nil {
		return r, err
	}
	runs, err := state.Open(ctx, a.StateDir)
	if err != nil {
		return r, err
	}
	defer runs.Close()
	active, err := runs.Runs(ctx, state.Filter{Active: true})
	if err != nil {
		return r, err
	}
	r.Needed = map[string]string{}
	for _, run := range active {
		r.Needed[run.Image] = run.ID
		attempts, err := runs.Attempts(ctx, run.ID)
		if err != nil {
			return r, err
		}
		for _, at := range attempts {
			r.Needed[at.Guest] = run.ID // none has no id
		}
		sub, err := submission.Of(run) // of another version of bee, maybe
		if err != nil || sub.Job.VM == nil || sub.Job.VM.Image == "" {
			continue
		}
		if guest, err := r.Cache.Get(sub.Job.VM.Image); err == nil {
			r.Needed[guest.ID] = run.ID
		}
	}
	return r, nil
}

// RmCommand returns the command `rm`.
func (a *Commands) RmCommand(g Group) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "rm IMAGE...", Short: "Remove images that no run uses or continues with", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeImages(g),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := a.openRemover(c.Context())
			if err != nil {
				return err
			}
			var ids []string // each once, and all before any is removed
			for _, word := range args {
				i, err := g.find(r.Cache, c.Name(), word)
				if err != nil {
					return err
				}
				if !slices.Contains(ids, i.ID) {
					ids = append(ids, i.ID)
				}
			}
			t := a.NewTally(asJSON)
			for _, id := range ids {
				t.Removed(id, r.Remove(id))
			}
			return t.End()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) newImagePruneCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "prune", Short: "Remove every image that no run uses or continues with, and unfinished ones", Args: cobra.NoArgs,
		Long: `Remove every image that no run uses or continues with, and unfinished ones. Also images
that were imported or tagged are removed, without a question. Each one is printed with
all of its names.`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := a.openRemover(c.Context())
			if err != nil {
				return err
			}
			names, nerr := r.Cache.Names()     // an image has none any more once it is removed
			freed, err := r.Prune(c.Context()) // what is removed is reported in any case
			err = errors.Join(nerr, err)
			views := make([]View, len(freed))
			for n, i := range freed {
				views[n] = newImageView(i, names[i.ID])
			}
			if asJSON {
				return errors.Join(err, a.WriteJSON(views))
			}
			for _, v := range views {
				called := v.Refs
				if len(called) == 0 {
					called = []string{v.Ref}
				}
				if _, werr := fmt.Fprintf(a.Stdout, "%s\t%s\n", v.ID, output.Printable(strings.Join(called, ", "))); werr != nil {
					return errors.Join(err, werr)
				}
			}
			if len(freed) == 0 && err == nil {
				a.Say("no image is without use")
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}
