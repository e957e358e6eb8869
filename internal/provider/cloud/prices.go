package cloud

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// A cloud's prices are kept in a file of the site. A price is asked for again once it is older than fresh. Where the
// cloud does not answer, it is used until it is older than stale.
const (
	pricesFile = "prices.json"
	mostPrices = 1000 // in the file
	mostBytes  = 1 << 20
	fresh      = 24 * time.Hour
	freshSpot  = time.Hour
	stale      = 7 * 24 * time.Hour
	pricesTime = 15 * time.Second // for the cloud's answer
	priceRest  = 10 * time.Minute // after an error, until the cloud is asked again
)

// prices is the last error of the cloud's prices, and when that was.
type prices struct {
	mu     sync.Mutex
	failed time.Time
	why    error
}

// priced sets the prices of offers. The error is why some are not known, or older than they should be.
func (p *provider) priced(ctx context.Context, offers []Offer) error {
	if !p.s.Priced {
		return nil
	}
	p.prices.mu.Lock()
	defer p.prices.mu.Unlock()
	now, known := time.Now(), readPrices(p.s.Dir)
	old := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool {
		price, is := known[o.String()]
		age := now.Sub(price.Asked)
		return is && age >= 0 && age < freshFor(o)
	})
	var err error
	if len(old) > 0 {
		if err = p.prices.why; time.Since(p.prices.failed) > priceRest {
			err = p.askPrices(ctx, old, known, now)
		}
	}
	for i := range offers {
		if price, is := known[offers[i].String()]; is && isPrice(price) && now.Sub(price.Asked) < stale {
			offers[i].Price = &price
		}
	}
	return err
}

// counted leaves out offers whose price is not known, where a limit of cost needs it. why is the error of the prices.
func (p *provider) counted(offers []Offer, why error) ([]Offer, error) {
	if !p.s.Capped || len(offers) == 0 {
		return offers, nil
	}
	known := slices.DeleteFunc(slices.Clone(offers), func(o Offer) bool { return o.Price == nil })
	if len(known) > 0 {
		return known, nil
	}
	if why == nil {
		why = noneOf(offers[0])
	}
	e := &core.Error{
		Kind: core.Unsupported, Op: "keep to `max_cost` at site", Object: p.s.Name, Err: fmt.Errorf("the price of its machines is not known: %w", why),
		Remedy: "Write `price:` at the site: what a machine costs in an hour.",
	}
	if core.IsKind(why, core.Transient) {
		e.Kind = core.Transient
	}
	if other := core.Remedy(why); other != "" {
		e.Remedy += " Or: " + other
	}
	return nil, e
}

// noneOf is the error of a price list without an offer.
func noneOf(o Offer) error { return fmt.Errorf("the price list has none of %s", o) }

// withMost returns the price of an offer, with that of the dearest of all; nil: not known.
func (o Offer) withMost(all []Offer) *driver.Price {
	if o.Price == nil {
		return nil
	}
	price := *o.Price
	for _, other := range all {
		if other.Price != nil {
			price.Most = max(price.Most, other.Price.Amount)
		}
	}
	return &price
}

func freshFor(o Offer) time.Duration {
	if o.Spot {
		return freshSpot
	}
	return fresh
}

// askPrices asks the cloud, and keeps what it answers.
func (p *provider) askPrices(ctx context.Context, offers []Offer, known map[string]driver.Price, now time.Time) error {
	bounded, cancel := context.WithTimeout(ctx, pricesTime)
	defer cancel()
	answer, err := p.api.Prices(bounded, offers)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && bounded.Err() != nil:
		err = &core.Error{Kind: core.Transient, Op: "ask for prices of site", Object: p.s.Name, Err: fmt.Errorf("the cloud has not answered within %s", pricesTime), Remedy: "Does the cloud answer (the network)?"}
	case err == nil && answer == nil:
		err = errors.New("the cloud has no price list")
	}
	p.prices.failed, p.prices.why = time.Time{}, err
	if err != nil {
		p.prices.failed = now
	}
	for name, price := range answer {
		price.Asked = now
		if isPrice(price) {
			known[name] = price
		}
	}
	if len(answer) > 0 {
		writePrices(p.s.Dir, known, now)
	}
	return err
}

// isPrice reports whether a price can be one.
func isPrice(p driver.Price) bool {
	return p.Amount > 0 && !math.IsInf(p.Amount, 0) && len(p.Currency) == 3 && core.Printable(p.Currency, 3) == p.Currency
}

// readPrices returns the prices that are kept. A file that cannot be read has none.
func readPrices(dir string) map[string]driver.Price {
	known := map[string]driver.Price{}
	raw, err := fsutil.ReadFile(dir, pricesFile, mostBytes)
	if err != nil || json.Unmarshal(raw, &known) != nil || known == nil {
		return map[string]driver.Price{}
	}
	return known
}

// writePrices keeps the newest prices. An error is none of the caller's: without the file they are asked for again.
func writePrices(dir string, known map[string]driver.Price, now time.Time) {
	var names []string
	for name, price := range known {
		if now.Sub(price.Asked) < stale {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(known[b].Asked.Compare(known[a].Asked), cmp.Compare(a, b))
	})
	kept := map[string]driver.Price{}
	for _, name := range names[:min(len(names), mostPrices)] {
		kept[name] = known[name]
	}
	raw, err := json.Marshal(kept)
	if err == nil {
		err = fsutil.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = fsutil.WriteFile(filepath.Join(dir, pricesFile), raw, 0o600)
	}
	core.BestEffort(err)
}
