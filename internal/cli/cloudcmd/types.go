package cloudcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// kind is a type of machines, as --json prints it.
type kind struct {
	Site   string        `json:"site"`
	Type   string        `json:"type"`
	Arch   string        `json:"arch,omitempty"`
	Cores  int           `json:"cores"`
	Memory int64         `json:"memory_bytes"`
	GPUs   int           `json:"gpus,omitempty"`
	Zones  []string      `json:"zones,omitempty"`
	Price  *driver.Price `json:"price_per_hour,omitempty"`
	Spot   *driver.Price `json:"spot_price_per_hour,omitempty"`
}

// typesCommand returns the command `cloud types`.
func (a *Commands) typesCommand() *cobra.Command {
	var (
		sites  []string
		asJSON bool
	)
	c := &cobra.Command{
		Use: "types [PATTERN...]", Short: "List types of machines that clouds rent, with their prices", Args: cobra.ArbitraryArgs,
		Example: "  bee cloud types\n  bee cloud types --site aws 'c7i.*'",
		Long: `List the types of the sites, or those of their clouds whose names match a PATTERN
with * and ?. A price is that of an hour on demand, by the site's price or by the
cloud's price list. That of spot machines is the lowest of all zones.`,
		RunE: func(c *cobra.Command, patterns []string) error {
			kinds, asked := []kind{}, 0
			err := a.eachCloud(c.Context(), sites, func(cl cloud) error {
				asked++
				list, err := cl.provider.Inventory().Types(c.Context(), patterns)
				for _, t := range list {
					kinds = append(kinds, kindOf(cl.site, t))
				}
				if err != nil {
					err = fmt.Errorf("site %s: %w", cl.site.Name, err)
				}
				return err
			})
			switch {
			case err != nil && len(kinds) == 0:
				return err
			case asJSON:
				return errors.Join(err, a.WriteJSON(kinds))
			case asked == 0:
				a.Say("no site of the sites file rents machines")
				return nil
			}
			return errors.Join(err, a.writeTypes(kinds))
		},
	}
	a.siteFlag(c, &sites)
	c.Flags().BoolVar(&asJSON, "json", false, console.JSONHelp)
	return c
}

// cloud is a site whose machines are rented.
type cloud struct {
	site     spec.Site
	provider driver.Provider
}

// eachCloud calls a function with each site of these names whose machines are rented; of no names, with all. Where it
// fails, the others follow, unless ctx has ended.
func (a *Commands) eachCloud(ctx context.Context, names []string, do func(c cloud) error) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	file, err := a.FindSites()
	if err != nil {
		return err
	}
	clouds, err := chosen(file.Sites, s.Provider, names)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range clouds {
		errs = append(errs, do(c))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// chosen returns the sites of these names whose machines are rented; of no names, all.
func chosen(sites []spec.Site, provider func(spec.Site) (driver.Provider, error), names []string) ([]cloud, error) {
	var clouds []cloud
	var there []spec.Site
	for _, s := range sites {
		p, err := provider(s)
		if err != nil {
			return nil, fmt.Errorf("site %s: %w", s.Name, err)
		}
		if p.Inventory() == nil {
			continue
		}
		there = append(there, s)
		if len(names) == 0 || slices.Contains(names, s.Name) {
			clouds = append(clouds, cloud{s, p})
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(there, func(s spec.Site) bool { return s.Name == name }) {
			return nil, noCloud(name, there)
		}
	}
	return clouds, nil
}

// kindOf returns a type of machines of a site, whose user may have written what they cost.
func kindOf(s spec.Site, t driver.MachineType) kind {
	k := kind{Site: s.Name, Type: t.Name, Arch: t.Arch, Cores: t.Cores, Memory: t.Memory, GPUs: t.GPUs, Zones: t.Zones, Price: t.Price, Spot: t.Spot}
	if k.Price == nil && s.Price.Amount > 0 {
		k.Price = &driver.Price{Amount: s.Price.Amount, Currency: s.Price.Currency, Source: driver.PriceOfUser}
	}
	return k
}

func (a *Commands) writeTypes(kinds []kind) error {
	if len(kinds) == 0 {
		a.Say("no cloud of the sites file has such a type")
		return nil
	}
	w := a.On(a.Stdout).List(8)
	w.Row("SITE", "TYPE", "CORES", "MEMORY", "GPUS", "ARCH", "AN HOUR", "SPOT", "ZONES")
	for _, k := range kinds {
		w.Row(k.Site, k.Type, k.Cores, console.BytesText(k.Memory), k.GPUs, console.OrDash(k.Arch), priceText(k.Price), priceText(k.Spot), console.OrDash(strings.Join(k.Zones, " ")))
	}
	return w.Flush()
}

// priceText is a price for people, or ? where it is not known.
func priceText(p *driver.Price) string {
	if p == nil {
		return "?"
	}
	return console.CostText(p.Amount, p.Currency)
}
