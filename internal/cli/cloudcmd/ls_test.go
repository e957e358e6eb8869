package cloudcmd

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestSum adds no two currencies, and prints of how many things the price is not known.
func TestSum(t *testing.T) {
	priced := func(amount float64, currency string) thing {
		return thing{Price: &driver.Price{Amount: amount, Currency: currency}}
	}
	for name, things := range map[string][]thing{
		"free":               {{Free: true}},
		"one currency":       {priced(1, "USD"), priced(0.5, "USD"), {Free: true}},
		"two currencies":     {priced(1, "SU"), priced(2, "")},
		"some are not known": {priced(1, "SU"), {}, {}},
		"none is known":      {{}},
		"all of it":          {{}, priced(1, "USD"), priced(0.001, "EUR")},
	} {
		testkit.Wording(t, name, sum(things))
	}
}

// TestEnd: what ends a thing is never left open, and a machine that only powers itself off is not printed as one that ends.
func TestEnd(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	for name, r := range map[string]control.Rented{
		"its run":            {EndedBy: control.EndedByRun},
		"its run, or itself": {EndedBy: control.EndedByRun, Rented: driver.Rented{Ends: at}},
		"itself":             {EndedBy: control.EndedByItself, Rented: driver.Rented{Ends: at}},
		"powers off":         {EndedBy: control.EndedByNobody, Rented: driver.Rented{Ends: at, PowersOff: true}},
		"its machine":        {EndedBy: control.EndedByMachine},
		"released":           {EndedBy: control.EndedByRelease},
		"kept":               {EndedBy: control.EndedByNobody, Kept: "why"},
	} {
		testkit.Wording(t, name, thingOf(r, at).end())
	}
}
