package benchcmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/cli/console"
)

// price notes what an hour of the hosts of each environment costs, by the `price:` of its site.
func (b *bench) price(p *record.Plan) error {
	for i := range p.Environments {
		e := &p.Environments[i]
		if e.Dropped != "" {
			continue
		}
		for _, point := range p.Points {
			if !slices.Contains(point.Environments, e.Name) {
				continue
			}
			job, err := b.taker.Job(point, e.Name, "")
			if err != nil {
				return err
			}
			sites, err := b.sites(job)
			if err != nil || len(sites) == 0 || sites[0].Price.Amount == 0 {
				break // the trial has reported the error
			}
			hosts := float64(job.Hosts())
			if splits(b.taker.Study.Environments[e.Name], job) {
				hosts = 1
			}
			if e.HourPrice >= sites[0].Price.Amount*hosts {
				continue
			}
			e.Site, e.HourPrice, e.Currency = sites[0].Name, sites[0].Price.Amount*hosts, sites[0].Price.Currency
			if provider, err := b.hosts.s.Provider(sites[0]); err == nil {
				e.LeastBilledSeconds = provider.Info().Billing.Least.Seconds()
			}
		}
	}
	return nil
}

// A cost is an amount in each currency.
type cost map[string]float64

// String is such as "0.5 SU and 3 EUR".
func (c cost) String() string {
	var texts []string
	for _, currency := range slices.Sorted(maps.Keys(c)) {
		texts = append(texts, console.CostText(c[currency], currency))
	}
	return strings.Join(texts, " and ")
}

// startsCost is what the starts of a block cost, as they took when the environments were tried.
func startsCost(p *record.Plan) cost {
	all := cost{}
	for i := range p.Environments {
		e := &p.Environments[i]
		if n := p.Starts(e); n > 0 && e.HourPrice > 0 {
			all[e.Currency] += float64(n) * max(e.TrialSeconds, e.LeastBilledSeconds) / time.Hour.Seconds() * e.HourPrice
		}
	}
	return all
}

// budgetCost is what the hosts of all sites cost for the whole budget.
func budgetCost(p *record.Plan) cost {
	sites, currencies := map[string]float64{}, map[string]string{}
	for _, e := range p.Environments {
		if e.Dropped == "" && e.HourPrice > 0 {
			sites[e.Site], currencies[e.Site] = max(sites[e.Site], e.HourPrice), e.Currency
		}
	}
	all := cost{}
	for site, price := range sites {
		all[currencies[site]] += price * p.BudgetSeconds / time.Hour.Seconds()
	}
	return all
}

// costText is what a plan costs, or "" where its sites have no price.
func costText(p *record.Plan) string {
	starts, whole := startsCost(p), cost{}
	if len(starts) == 0 {
		return ""
	}
	for currency, amount := range starts {
		whole[currency] = amount * float64(p.Most+1)
	}
	text := fmt.Sprintf("the starts of a block cost %s, and those of all blocks %s", starts, whole)
	if p.BudgetSeconds > 0 {
		text += fmt.Sprintf("; hosts for the whole budget cost at most %s", budgetCost(p))
	}
	return text + "\n"
}
