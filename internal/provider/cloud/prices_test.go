package cloud

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// TestPrices: they are asked for once a day, those of spot machines once an hour, by all processes together. Older ones
// are used where the cloud does not answer.
func TestPrices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir := newAccount(), t.TempDir()
		a.prices = map[string]float64{"small": 0.25, "large": 1}
		offers := func() []Offer {
			return []Offer{{Type: "small", Zone: "z"}, {Type: "large", Zone: "z", Spot: true}, {Type: "unknown", Zone: "z"}}
		}
		look := func(when string, asked int, ages ...time.Duration) {
			t.Helper()
			list := offers()
			p := newProvider(t, a, dir, time.Minute).(*provider)
			p.s.Priced = true
			if err := p.priced(t.Context(), list); (err != nil) != (a.listError != nil) {
				t.Errorf("%s: %v", when, err)
			}
			if a.listed != asked {
				t.Errorf("%s: the list was asked %d times, expected %d", when, a.listed, asked)
			}
			for i, age := range ages {
				if price := list[i].Price; price == nil || price.Amount != a.prices[list[i].Type] || time.Since(price.Asked) != age {
					t.Errorf("%s: the price of %s is %+v, expected one of %s ago", when, list[i], price, age)
				}
			}
			for _, o := range list[len(ages):] {
				if o.Price != nil {
					t.Errorf("%s: the price of %s is %+v", when, o, o.Price)
				}
			}
		}
		look("at first", 1, 0, 0)
		a.listError = errors.New("it does not answer")
		time.Sleep(2 * time.Hour) // in virtual time
		look("without an answer", 2, 2*time.Hour, 2*time.Hour)
		a.listError = nil
		look("answered again", 3, 2*time.Hour, 0)
		a.listError = errors.New("it does not answer")
		time.Sleep(8 * 24 * time.Hour) // in virtual time
		look("too old", 4)
	})
}

// TestPricesOfTheUser: where the user has written a price, the cloud is not asked.
func TestPricesOfTheUser(t *testing.T) {
	a := newAccount()
	p := newProvider(t, a, t.TempDir(), time.Minute).(*provider)
	list := []Offer{{Type: "small"}}
	if err := p.priced(t.Context(), list); err != nil || a.listed != 0 || list[0].Price != nil {
		t.Errorf("asked %d times, %+v, %v", a.listed, list, err)
	}
}

// TestPriceOfTheMachines: a plan has the price of the offer that it names, and a lease that of its machines.
func TestPriceOfTheMachines(t *testing.T) {
	a := newAccount()
	a.prices = map[string]float64{"small": 0.25}
	p := newProvider(t, a, t.TempDir(), time.Minute).(*provider)
	p.s.Priced = true
	f, err := p.Probe(t.Context())
	if err != nil || f.Price == nil || f.Price.Amount != 0.25 || f.Price.Currency != "USD" || f.Price.Source != driver.PriceOfList || f.NoPrice != "" {
		t.Errorf("the probe has %+v, %v", f.Price, err)
	}
	l, err := p.Acquire(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if price := l.Price(); price == nil || price.Amount != 0.25 {
		t.Errorf("the lease has %+v", price)
	}
	if a.listed != 1 {
		t.Errorf("the list was asked %d times", a.listed)
	}
	a.prices, a.listError = nil, errors.New("it does not answer")
	other := newProvider(t, a, t.TempDir(), time.Minute).(*provider)
	other.s.Priced = true
	if f, err := other.Probe(t.Context()); err != nil || !f.Usable || f.Price != nil || f.NoPrice == "" {
		t.Errorf("without an answer: %+v, %v", f, err)
	}
}

// TestPricesOfALimit: where the cost of a run is limited, offers whose price is not known are no offers, and the dearest of
// the others counts.
func TestPricesOfALimit(t *testing.T) {
	denied := &core.Error{Kind: core.Unsupported, Op: "ask", Remedy: "Allow it."}
	for name, c := range map[string]struct {
		prices map[string]float64
		err    error
		first  string
		most   float64
		kind   core.Kind // of the refusal
	}{
		"both are known":      {map[string]float64{"large": 1, "small": 0.25}, nil, "large", 1, 0},
		"the second is known": {map[string]float64{"small": 0.25}, nil, "small", 0.25, 0},
		"the list has none":   {nil, nil, "", 0, core.Unsupported},
		"a right is missing":  {nil, denied, "", 0, core.Unsupported},
		"no answer":           {nil, &core.Error{Kind: core.Transient, Op: "ask"}, "", 0, core.Transient},
	} {
		a := newAccount()
		a.larger, a.prices, a.listError = []Offer{{Type: "large", Zone: "z", Cores: 64, Memory: 1 << 40}}, c.prices, c.err
		p := newProvider(t, a, t.TempDir(), time.Minute).(*provider)
		p.s.Priced, p.s.Capped = true, true
		f, err := p.Probe(t.Context())
		if err != nil || f.Usable != (c.first != "") || f.Detail["type"] != c.first {
			t.Errorf("%s: the probe has %+v, %v", name, f, err)
		}
		fit, err := p.fitting(t.Context(), request)
		if c.first == "" {
			if !core.IsKind(err, c.kind) || f.Passing != (c.kind == core.Transient) || !strings.Contains(f.Remedy, "price:") || errors.Is(c.err, denied) && !strings.Contains(f.Remedy, denied.Remedy) {
				t.Errorf("%s: refused with %v, %+v", name, err, f)
			}
			continue
		}
		if err != nil || fit[0].Type != c.first || len(fit) != len(c.prices) || f.Price == nil || f.Price.Amount != c.prices[c.first] || f.Price.Most != c.most {
			t.Errorf("%s: there are %v, %v, at %+v", name, fit, err, f.Price)
		}
		p.s.Capped = false
		if fit, err := p.fitting(t.Context(), request); err != nil || len(fit) != 2 {
			t.Errorf("%s, without a limit: there are %v, %v", name, fit, err)
		}
	}
}
