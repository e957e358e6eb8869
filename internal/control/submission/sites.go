package submission

import (
	"errors"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

func SiteNames(sites []spec.Site) []string {
	names := make([]string, len(sites))
	for i, s := range sites {
		names[i] = s.Name
	}
	return names
}

// Prefer puts sites before those of a submission, which stay known: something may
// be left there. The user's order counts from then on.
func (s *Submission) Prefer(sites []spec.Site) {
	for _, old := range s.Sites {
		if !slices.ContainsFunc(sites, func(n spec.Site) bool { return n.Name == old.Name }) {
			sites = append(sites, old)
		}
	}
	s.Sites, s.Job.Order = sites, spec.OrderListed
}

func (s *Submission) Listed() bool { return s.Job.Order == "" || s.Job.Order == spec.OrderListed }

// Order returns the indexes of the sites in the order that the job wants.
func (s *Submission) Order(forecasts []candidate.Forecast) []int {
	starts := make([]placement.Start, len(forecasts))
	for i, f := range forecasts {
		if f.Err == nil {
			starts[i] = f.At
		}
	}
	return placement.Order(s.Job.Order, s.Priced(forecasts), starts, time.Now())
}

// Priced returns the sites. Where a provider is asked for prices, its site has the price of its forecast.
func (s *Submission) Priced(forecasts []candidate.Forecast) []spec.Site {
	sites := slices.Clone(s.Sites)
	for i, f := range forecasts {
		if p := f.Facts.Price; p != nil && sites[i].AsksPrice() {
			sites[i] = sites[i].WithPrice(spec.Price{Amount: p.Amount, Most: p.Most, Currency: p.Currency})
		}
	}
	return sites
}

// Site gives the site of an earlier attempt as it was at submission.
func (s *Submission) Site(name string) (spec.Site, error) {
	for _, site := range s.Sites {
		if site.Name == name {
			return site, nil
		}
	}
	return spec.Site{}, &core.Error{
		Kind: core.NotFound, Op: "find site", Object: name,
		Err: errors.New("the run was submitted without it"), Remedy: "Name a site that `bee show RUN` lists.",
	}
}

// Addresses returns of sites only name and address, which is all that a ticket has of them.
func Addresses(sites []spec.Site) []spec.Site {
	list := make([]spec.Site, len(sites))
	for i, s := range sites {
		list[i] = spec.Site{Name: s.Name, Provider: s.Provider, Login: s.Login, Hosts: s.Hosts}
	}
	return list
}

// AtAddresses returns those of a user's sites that have name and address of one of a ticket, in
// the ticket's order and with the hosts that both have.
func AtAddresses(addresses, sites []spec.Site) []spec.Site {
	var same []spec.Site
	for _, a := range addresses {
		at := slices.IndexFunc(sites, func(s spec.Site) bool { return s.Name == a.Name && s.Provider == a.Provider && s.Login == a.Login })
		if at < 0 || slices.ContainsFunc(same, func(s spec.Site) bool { return s.Name == a.Name }) {
			continue
		}
		site, there := sites[at], map[string]bool{}
		for _, host := range hostsOf(a) {
			there[host] = true
		}
		site.Hosts.Patterns = slices.DeleteFunc(hostsOf(site), func(host string) bool { return !there[host] })
		if len(sites[at].Hosts.Patterns) == 0 || len(site.Hosts.Patterns) > 0 {
			same = append(same, site)
		}
	}
	return same
}

// mostAddresses bounds the hosts of a site of a ticket, whose patterns may mean many.
const mostAddresses = 100000

// hostsOf are the names of a site's hosts, as far as they can be read.
func hostsOf(s spec.Site) (hosts []string) {
	for _, pattern := range s.Hosts.Patterns {
		names, err := spec.ExpandHosts(pattern)
		if err == nil {
			hosts = append(hosts, names...)
		}
		if len(hosts) > mostAddresses {
			return hosts[:mostAddresses]
		}
	}
	return hosts
}
