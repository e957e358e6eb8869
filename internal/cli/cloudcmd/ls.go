package cloudcmd

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/spf13/cobra"
)

// thing is something rented, as --json prints it.
type thing struct {
	Site    string            `json:"site"`
	Kind    driver.RentedKind `json:"kind"`
	ID      string            `json:"id"`
	Name    string            `json:"name,omitempty"`
	Run     string            `json:"run,omitempty"`
	Attempt int               `json:"attempt,omitempty"`
	Live    bool              `json:"live"`
	Type    string            `json:"type,omitempty"`
	Zone    string            `json:"zone,omitempty"`
	State   string            `json:"state,omitempty"`
	Since   time.Time         `json:"since,omitzero"`
	Age     float64           `json:"age_seconds,omitempty"`
	Free    bool              `json:"free,omitempty"`
	Price   *driver.Price     `json:"price_per_hour,omitempty"`
	EndedBy control.EndedBy   `json:"ended_by"`
	Ends    time.Time         `json:"ends,omitzero"`
	Powers  bool              `json:"powers_off,omitempty"`
	past    bool              // its end was before the clouds were asked
	With    string            `json:"ends_with,omitempty"`
	Kept    string            `json:"kept,omitempty"`
}

func thingOf(r control.Rented, now time.Time) thing {
	t := thing{
		Site: r.Site, Kind: r.Kind, ID: r.ID, Name: r.Name, Run: r.Owner.Run, Attempt: r.Owner.Attempt, Live: r.Live(), Type: r.Type, Zone: r.Zone, State: r.State,
		Since: r.Since, Free: r.Free, Price: r.Price, EndedBy: r.EndedBy, Ends: r.Ends, Powers: r.PowersOff, With: r.With, Kept: r.Kept,
		past: !r.Ends.IsZero() && r.Ends.Before(now),
	}
	if r.Free { // as it is now
		t.Price = nil
	}
	if !r.Since.IsZero() {
		t.Age = max(now.Sub(r.Since), 0).Round(time.Second).Seconds()
	}
	return t
}

// lsCommand returns the command `cloud ls`.
func (a *Commands) lsCommand() *cobra.Command {
	var (
		sites  []string
		asJSON bool
	)
	c := &cobra.Command{
		Use: "ls", Short: "List what this installation has rented at clouds", Args: cobra.NoArgs,
		Long: `List everything that this installation of bee has at the clouds of the sites file:
machines, disks, reservations, reserved addresses, groups and images. The clouds are
asked, and not the records of bee. A site that is not in the file any more is asked as
long as a run has left something there. Each thing is shown with its run, its age,
its price and what will end it. The exit code is not 0 if a cloud did not answer:
what it has is not known then.`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.OpenQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := a.rented(c.Context(), s, sites)
			if err != nil && c.Context().Err() != nil {
				return err
			}
			things := []thing{}
			for _, r := range found.list {
				things = append(things, thingOf(r, time.Now()))
			}
			if asJSON {
				return errors.Join(err, a.WriteJSON(things))
			}
			if len(things) > 0 {
				if werr := a.writeThings(things); werr != nil {
					return errors.Join(err, werr)
				}
			}
			switch {
			case err != nil:
				a.Say("not every cloud has answered: more may be rented")
			case len(found.clouds) == 0:
				a.Say("no site rents machines")
			case len(things) == 0:
				a.Say("nothing is rented")
			}
			return err
		},
	}
	a.siteFlag(c, &sites)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// writeThings writes a table of things, and what they cost together.
func (a *Commands) writeThings(things []thing) error {
	w := a.On(a.Stdout).List(4)
	w.Row("SITE", "RUN", "KIND", "ID", "TYPE", "STATE", "AGE", "AN HOUR", "ENDED BY")
	for _, t := range things {
		age := "-"
		if !t.Since.IsZero() {
			age = console.DurationText(time.Duration(t.Age) * time.Second)
		}
		w.Row(t.Site, console.OrDash(t.Run), t.Kind, t.ID, console.OrDash(t.Type), console.OrDash(t.State), age, t.price(), t.end())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	a.Say("%s", sum(things))
	return nil
}

// price is what a thing costs an hour, for people.
func (t thing) price() string {
	switch {
	case t.Free:
		return "free"
	case t.Price == nil:
		return "?"
	}
	return console.CostText(t.Price.Amount, t.Price.Currency)
}

// end is what will end a thing, for people.
func (t thing) end() string {
	at := t.Ends.Local().Format("2006-01-02 15:04")
	text := map[control.EndedBy]string{
		control.EndedByRun: "its run", control.EndedByRelease: "bee, which tries", control.EndedByItself: "itself, " + at, control.EndedByMachine: "its machine", control.EndedByNobody: "nobody",
		control.EndedByUser: "bee cloud image rm",
	}[t.EndedBy]
	switch {
	case t.EndedBy == control.EndedByItself || t.Ends.IsZero():
	case t.past:
		text += "; was to end at " + at
	case t.Powers:
		text += "; off at " + at
	default:
		text += "; at the latest " + at
	}
	if t.Kept != "" {
		text += "; " + t.Kept
	}
	return text
}

// sum is what things cost together, by currency, and of how many that is not known.
func sum(things []thing) string {
	total, unknown := map[string]float64{}, 0
	for _, t := range things {
		switch {
		case t.Free:
		case t.Price == nil:
			unknown++
		default:
			total[t.Price.Currency] += t.Price.Amount
		}
	}
	var parts []string
	for _, currency := range slices.Sorted(maps.Keys(total)) {
		parts = append(parts, console.CostText(total[currency], currency))
	}
	if unknown > 0 {
		parts = append(parts, "the unknown price of "+console.CountText(unknown, "thing"))
	}
	return "together an hour: " + cmp.Or(strings.Join(parts, ", and "), "nothing")
}
