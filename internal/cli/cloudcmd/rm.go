package cloudcmd

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

// rmOptions are the flags of `cloud rm`.
type rmOptions struct {
	sites              []string
	yes, force, asJSON bool
}

// rmCommand returns the command `cloud rm`.
func (a *Commands) rmCommand() *cobra.Command {
	var o rmOptions
	c := &cobra.Command{
		Use: "rm", Short: "End what is rented at clouds and no live run owns", Args: cobra.NoArgs,
		Long: `End everything that bee cloud ls lists and no live run owns. It is listed first, and
ended if you agree. Files on these machines are lost. Images stay, but not what an
upload has left that ended in the middle. What no record explains is
kept, unless --force is given. A thing whose owner is not known is always kept.
With --json nothing is asked, and it needs --yes.`,
		RunE: func(c *cobra.Command, _ []string) error { return a.rm(c, o) },
	}
	a.siteFlag(c, &o.sites)
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVarP(&o.force, "force", "f", false, "also end what no record explains")
	c.Flags().BoolVar(&o.asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) rm(c *cobra.Command, o rmOptions) error {
	s, err := a.OpenQuietly(c.Context())
	if err != nil {
		return err
	}
	defer s.Close()
	found, lerr := a.rented(c.Context(), s, o.sites)
	if lerr != nil && len(found.list) == 0 {
		return lerr
	}
	done := []control.Swept{}
	owners := map[string][]core.Owner{}
	var ending []thing
	for _, r := range found.list {
		switch owner := (core.Owner{}); {
		case r.Live(), r.EndedBy == control.EndedByUser:
		case r.Kept != "" && (!o.force || r.Owner == owner):
			kept := control.Swept{Site: r.Site, Owner: ownerText(r), Kept: r.Kept}
			if !slices.Contains(done, kept) {
				done = append(done, kept)
			}
		default:
			ending = append(ending, thingOf(r, time.Now()))
			if !slices.Contains(owners[r.Site], r.Owner) {
				owners[r.Site] = append(owners[r.Site], r.Owner)
			}
		}
	}
	if len(ending) > 0 {
		if err := a.agreed(ending, o); err != nil {
			return errors.Join(err, lerr)
		}
	}
	errs := []error{lerr}
	for _, site := range found.clouds {
		if len(owners[site.Name]) > 0 {
			ended, err := s.Garbage().EndRented(c.Context(), site, owners[site.Name], o.force)
			done, errs = append(done, ended...), append(errs, err)
		}
	}
	if o.asJSON {
		return errors.Join(append(errs, a.WriteJSON(done))...)
	}
	for _, d := range done {
		if _, err := fmt.Fprintln(a.Stdout, output.Printable(lineOf(d))); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	err = errors.Join(errs...)
	if len(done) == 0 && err == nil {
		a.Say("nothing is left that no live run owns")
	}
	return err
}

// ownerText names the owner of a thing; of one that has none, the thing.
func ownerText(r control.Rented) string {
	if r.Owner == (core.Owner{}) {
		return string(r.Kind) + " " + r.ID
	}
	return r.Owner.String()
}

// lineOf is what became of the things of an owner.
func lineOf(d control.Swept) string {
	line := d.Site + "\t" + d.Owner
	if d.Image != "" {
		line += "\tpart of image " + d.Image
	}
	switch {
	case d.Kept != "":
		return line + "\tkept: " + d.Kept
	case d.Error != "":
		return line + "\tfailed"
	}
	return line
}

// agreed shows what is about to end, and returns an error unless the user agrees. With JSON nothing is shown, and so
// nobody is asked.
func (a *Commands) agreed(ending []thing, o rmOptions) error {
	if o.yes {
		return nil
	}
	if !o.asJSON {
		if err := a.writeThings(ending); err != nil {
			return err
		}
	}
	if !o.asJSON && console.OnTerminal() && a.Agrees(fmt.Sprintf("End %s, with all files there?", console.CountText(len(ending), "thing"))) {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "end what is rented", Err: errors.New("nobody has agreed, and nothing was ended"),
		Remedy: "Answer yes on a terminal, without --json, or give --yes.",
	}
}
