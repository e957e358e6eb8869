package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Price is that of an hour. In a sites file it may also be the amount alone.
type Price struct {
	Amount float64 `yaml:"amount"`
	// Currency is such as SU; "": that of the sites file, which needs no name.
	Currency string `yaml:"currency"`
	// Most is what the dearest host costs that the site may grant; 0: Amount.
	Most float64 `yaml:"-" json:",omitempty"`
	// Rate is what a unit of Currency is in the currency of the sites file, by its `exchange`; 0: not known.
	Rate float64 `yaml:"-"`
}

// priceForm is Price without its own methods.
type priceForm Price

func (p *Price) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.object(n, reflect.ValueOf((*priceForm)(p)).Elem(), path)
	default:
		d.decode(n, reflect.ValueOf(&p.Amount).Elem(), path)
	}
}

// MarshalJSON returns the amount alone where it has no currency, as an older bee reads it.
func (p Price) MarshalJSON() ([]byte, error) {
	if p.Currency == "" {
		return json.Marshal(p.Amount)
	}
	return json.Marshal(priceForm(p))
}

// UnmarshalJSON reads either form.
func (p *Price) UnmarshalJSON(raw []byte) error {
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		return json.Unmarshal(raw, (*priceForm)(p))
	}
	*p = Price{}
	return json.Unmarshal(raw, &p.Amount)
}

// Highest returns the most that a host may cost.
func (p Price) Highest() float64 { return max(p.Amount, p.Most) }

// String is the price with its currency.
func (p Price) String() string { return strings.TrimSpace(fmt.Sprintf("%g %s", p.Amount, p.Currency)) }

// Comparable returns the prices of sites as numbers that can be compared, and the index of a site whose price cannot
// be compared with that of an earlier one, or -1. Such a price is infinite. What costs nothing does so in all
// currencies.
func Comparable(sites []Site) (values []float64, not int) {
	values, not = make([]float64, len(sites)), -1
	priced := func(s Site) bool { return s.Price.Amount != 0 }
	first := slices.IndexFunc(sites, priced)
	same := !slices.ContainsFunc(sites, func(s Site) bool { return priced(s) && s.Price.Currency != sites[first].Price.Currency })
	for i, s := range sites {
		switch p := s.Price; {
		case s.AsksPrice() && p.Amount == 0: // not known
			values[i] = math.Inf(1)
		case same || p.Amount == 0 || p.Currency == "":
			values[i] = p.Amount
		case p.Rate > 0:
			values[i] = p.Amount * p.Rate
		default:
			if values[i] = math.Inf(1); not < 0 {
				not = i
			}
		}
	}
	return values, not
}

// CheckOrder finds prices that cannot be compared, for a job that wants the cheapest site first.
func (t *Draft) CheckOrder(f SitesFile) {
	if t.Job.Order != OrderCheapest {
		return
	}
	sites, err := SelectSites(t.Job, f.Sites, f.Path)
	if err != nil {
		return // it is reported by CheckSites
	}
	sites = slices.Clone(sites)
	for i, s := range sites {
		if s.AsksPrice() { // some price in its currency
			sites[i] = s.WithPrice(Price{Amount: 1, Currency: s.AWS.Currency()})
		}
	}
	if _, not := Comparable(sites); not >= 0 {
		s := sites[not]
		price := s.Price.String()
		if s.AsksPrice() {
			price = "AWS's own in " + s.Price.Currency
		}
		t.report.at("order", fmt.Sprintf("such as `exchange: {%s: 0.05}` in the sites file: what one is worth in its currency", s.Price.Currency),
			"order: the price of site %s, %s, cannot be compared with those of the others", s.Name, price)
	}
}

// exchange finds rates that cannot be, and gives the sites those of their currencies.
func (r *report) exchange(f *SitesFile) {
	for _, name := range slices.Sorted(maps.Keys(f.Exchange)) {
		at := "exchange." + name
		if !fits("exchange", name) {
			r.atKey(at, "letters, such as SU or EUR", "exchange: %q is no currency", name)
		}
		if f.Exchange[name] <= 0 && r.wasRead(at) {
			r.at(at, "such as 0.05: what one is worth in the currency of the file", "%s: %v cannot be", at, f.Exchange[name])
		}
	}
	for i := range f.Sites {
		p := &f.Sites[i].Price
		p.Rate = f.Exchange[p.Currency]
		if a := f.Sites[i].AWS; a != nil {
			a.Rate = f.Exchange[a.Currency()]
		}
	}
}

// price finds a price that cannot be.
func (sc *siteCheck) price() {
	s, at := sc.site, sc.at+".price"
	amount := at
	if _, long := sc.report.places[at+".amount"]; long {
		amount += ".amount"
	}
	within(sc.report, amount, s.Price.Amount)
	if s.AWS != nil {
		_, given := sc.report.places[at]
		s.AWS.AskPrice = !given && amount == at
	}
	if s.Price.Currency != "" && !fits("sites[].price.currency", s.Price.Currency) {
		sc.report.at(at+".currency", "letters, such as SU or EUR", "%s.currency: %q is no currency", at, s.Price.Currency)
	}
	within(sc.report, sc.at+".max_cost", s.MaxCost)
	if s.MaxCost > 0 && s.Price.Amount == 0 && !s.AsksPrice() && sc.report.wasRead(at) {
		sc.report.atKey(sc.at+".max_cost", "such as `price: 0.17`: what a host costs in an hour", "%s.max_cost: it needs a `price`", sc.at)
	}
}
