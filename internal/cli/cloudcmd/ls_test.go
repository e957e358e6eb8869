package cloudcmd

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/creack/pty"
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

// TestJSONAsksNothing: with --json nothing is shown on a terminal, and so nobody is asked.
func TestJSONAsksNothing(t *testing.T) {
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	stdin, stderr := os.Stdin, os.Stderr
	defer func() { os.Stdin, os.Stderr = stdin, stderr }()
	os.Stdin, os.Stderr = terminal, terminal
	for name, c := range map[string]struct {
		o      rmOptions
		agrees bool
	}{
		"asked": {agrees: true}, "with --json": {o: rmOptions{asJSON: true}}, "with --json and --yes": {o: rmOptions{asJSON: true, yes: true}, agrees: true},
	} {
		if _, err := keyboard.WriteString("y\n"); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		a := New(&workspace.Workspace{Console: &console.Console{Stdout: &out, Stderr: &out}})
		err := a.agreed([]thing{{Kind: "machine", ID: "m"}}, c.o)
		if asked := out.Len() > 0; (err == nil) != c.agrees || err != nil && !core.IsKind(err, core.Invalid) || asked == (c.o.asJSON || c.o.yes) {
			t.Errorf("%s: %v, printed %q", name, err, out.String())
		}
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
		"an image":           {EndedBy: control.EndedByUser},
		"kept":               {EndedBy: control.EndedByNobody, Kept: "why"},
	} {
		testkit.Wording(t, name, thingOf(r, at).end())
	}
	late := control.Rented{EndedBy: control.EndedByNobody, Rented: driver.Rented{Ends: at}}
	testkit.Wording(t, "past its end", thingOf(late, at.Add(time.Second)).end())
}
