package spec

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"
)

// TestPrice is read in both forms, from a sites file and from a record of this bee or an older one.
func TestPrice(t *testing.T) {
	sites, err := ParseSites("sites.yaml", []byte("exchange: {SU: 0.5}\nsites:\n- {name: a, provider: local, price: 2}\n- {name: b, provider: local, price: {amount: 3, currency: SU}, max_cost: 5}\n- {name: c, provider: local, price: {amount: 1, currency: EUR}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		price Price
		raw   string
	}{
		{Price{Amount: 2}, "2"},
		{Price{Amount: 3, Currency: "SU", Rate: 0.5}, `{"Amount":3,"Currency":"SU","Rate":0.5}`},
		{Price{Amount: 1, Currency: "EUR"}, `{"Amount":1,"Currency":"EUR","Rate":0}`},
	} {
		raw, err := json.Marshal(sites[i].Price)
		var again Price
		if err = errors.Join(err, json.Unmarshal(raw, &again)); err != nil || sites[i].Price != want.price || string(raw) != want.raw || again != want.price {
			t.Errorf("the price is %+v, recorded as %s and read as %+v, %v", sites[i].Price, raw, again, err)
		}
	}
}

func TestComparable(t *testing.T) {
	own, free, su, eur, rated := Price{Amount: 2}, Price{}, Price{Amount: 3, Currency: "SU"}, Price{Amount: 1, Currency: "EUR"}, Price{Amount: 3, Currency: "SU", Rate: 0.5}
	for name, c := range map[string]struct {
		prices []Price
		want   []float64
		not    int
	}{
		"of one file":               {[]Price{own, free}, []float64{2, 0}, -1},
		"of another currency alone": {[]Price{su, su, free}, []float64{3, 3, 0}, -1},
		"with a rate":               {[]Price{own, rated}, []float64{2, 1.5}, -1},
		"without a rate":            {[]Price{own, su}, []float64{2, math.Inf(1)}, 1},
		"two others":                {[]Price{rated, eur}, []float64{1.5, math.Inf(1)}, 1},
		"none":                      {nil, []float64{}, -1},
	} {
		sites := make([]Site, len(c.prices))
		for i, p := range c.prices {
			sites[i].Price = p
		}
		if got, not := Comparable(sites); !slices.Equal(got, c.want) || not != c.not {
			t.Errorf("%s: %v and %d, expected %v and %d", name, got, not, c.want, c.not)
		}
	}
}

// TestPricesThatAWSHas are asked for where the user has written none, zero included.
func TestPricesThatAWSHas(t *testing.T) {
	for price, want := range map[string]bool{"": true, "price: 0, ": false, "price: 2, ": false, "price: {amount: 2, currency: SU}, ": false} {
		sites, err := ParseSites("sites.yaml", []byte("exchange: {USD: 0.5, CNY: 0.1}\nsites:\n- {name: a, provider: aws, slot: 1h, "+price+"aws: {types: [t9.small], image: debian-12}}\n- {name: b, provider: aws, slot: 1h, max_cost: 5, aws: {region: cn-north-1, types: [t9.small], image: debian-12}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if a := sites[0]; a.AsksPrice() != want || a.AWS.Rate != 0.5 {
			t.Errorf("%q: %+v", price, a.AWS)
		}
		if b := sites[1].WithPrice(Price{Amount: 3, Currency: "CNY"}); b.Price != (Price{Amount: 3, Currency: "CNY", Rate: 0.1}) || sites[1].Price != (Price{}) {
			t.Errorf("in China: %+v", b.Price)
		}
		values, not := Comparable([]Site{{Price: Price{Amount: 2}}, sites[1], sites[1].WithPrice(Price{Amount: 3, Currency: "CNY"})})
		if not >= 0 || !math.IsInf(values[1], 1) || math.Abs(values[2]-0.3) > 1e-9 {
			t.Errorf("compared as %v, %d", values, not)
		}
	}
}
