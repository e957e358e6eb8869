package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
)

// TestAPlanWithoutASiteFails, also for scripts that read its JSON.
func TestAPlanWithoutASiteFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir) // where there is no Slurm
	job, sites := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "sites.yaml")
	if err := errors.Join(os.WriteFile(job, []byte("image: busybox\nrun: \"true\"\n"), 0o600), os.WriteFile(sites, []byte("sites: [{name: cluster, provider: slurm}]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"plan", job}, {"plan", "--json", job}} {
		d := newDesk(t)
		if err := d.bee(append([]string{"--sites", sites}, args...)...); !errors.Is(err, console.Exit(console.ExitUnsupported)) {
			t.Errorf("%v: %v, %s", args, err, d.out.String())
		}
		var list []control.Prospect
		if len(args) == 3 && (json.Unmarshal(d.out.Bytes(), &list) != nil || len(list) != 1 || list[0].Site != "cluster" || list[0].Usable || list[0].Reason == "") {
			t.Errorf("it writes %s", d.out.String())
		}
	}
}

// TestAPlanHasTheCostOfASlot by the price at the site, of all hosts of the job.
func TestAPlanHasTheCostOfASlot(t *testing.T) {
	dir := t.TempDir()
	job, sites := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "sites.yaml")
	if err := errors.Join(os.WriteFile(job, []byte("image: busybox\nrun: \"true\"\nnodes: 2\n"), 0o600), os.WriteFile(sites, []byte("sites: [{name: here, provider: local, hosts: 2, price: 1.5, slot: 4h}]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	if err := d.bee("--sites", sites, "plan", "--json", job); err != nil && !errors.Is(err, console.Exit(console.ExitUnsupported)) {
		t.Fatal(err)
	}
	var list []control.Prospect
	if err := json.Unmarshal(d.out.Bytes(), &list); err != nil || len(list) != 1 || list[0].CostPerHour != 3 || list[0].CostPerSlot != 12 {
		t.Errorf("it writes %s, %v", d.out.String(), err)
	}
}

// TestCheapestOfSeveralCurrencies needs their exchange.
func TestCheapestOfSeveralCurrencies(t *testing.T) {
	dir := t.TempDir()
	job, sites := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "sites.yaml")
	const two = "sites: [{name: own, provider: local, price: 1}, {name: campus, provider: local, price: {amount: 3, currency: SU}}]\n"
	if err := errors.Join(os.WriteFile(job, []byte("image: busybox\nrun: \"true\"\norder: cheapest\n"), 0o600), os.WriteFile(sites, []byte(two), 0o600)); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	err := d.bee("--sites", sites, "plan", "--json", job)
	wrong, is := errors.AsType[*spec.Errors](err)
	if !is || len(wrong.Problems) != 1 || wrong.Problems[0].Line != 3 || !strings.Contains(wrong.Problems[0].Hint, "exchange") {
		t.Fatalf("without an exchange: %v", err)
	}
	if err := os.WriteFile(sites, []byte("exchange: {SU: 0.05}\n"+two), 0o600); err != nil {
		t.Fatal(err)
	}
	d.out.Reset()
	if err := d.bee("--sites", sites, "plan", "--json", job); err != nil && !errors.Is(err, console.Exit(console.ExitUnsupported)) {
		t.Fatal(err)
	}
	var list []control.Prospect
	if err := json.Unmarshal(d.out.Bytes(), &list); err != nil || len(list) != 2 || list[0].Site != "campus" || list[0].CostPerHour != 3 || list[0].Currency != "SU" {
		t.Errorf("it writes %s, %v", d.out.String(), err)
	}
}

// TestPricesOfThePlan: AWS is asked for prices where the user has written none, and they have an age. Prices in several
// currencies are compared by `exchange` only.
func TestPricesOfThePlan(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	job, sites := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "sites.yaml")
	plan := func(order, exchange, price string, args ...string) (*desk, error) {
		t.Helper()
		text := fmt.Sprintf("%ssites: [{name: own, provider: local, slot: 1h, price: 1, hosts: 2}, {name: cloud, provider: aws, slot: 1h, %saws: {types: [%s], image: %s, user: ann, network: {ssh_from: [203.0.113.7/32]}}}]\n", exchange, price, ec2server.Small, ec2server.Image)
		if err := errors.Join(os.WriteFile(job, []byte("image: busybox\nrun: \"true\"\nnodes: 2\n"+order), 0o600), os.WriteFile(sites, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		d := newDesk(t)
		err := d.bee(append([]string{"--sites", sites, "plan", job}, args...)...)
		if errors.Is(err, console.Exit(console.ExitUnsupported)) {
			err = nil
		}
		return d, err
	}
	_, err := plan("order: cheapest\n", "", "")
	if wrong, is := errors.AsType[*spec.Errors](err); !is || len(wrong.Problems) != 1 || !strings.Contains(wrong.Problems[0].Hint, "USD") {
		t.Errorf("without an exchange: %v", err)
	}
	for price, want := range map[string]struct {
		source driver.PriceSource
		hour   float64
		calls  int
	}{
		"":             {driver.PriceOfList, 2 * ec2server.ListPrice(2), 1},
		"price: 0.3, ": {driver.PriceOfUser, 0.6, 0},
		"price: 0, ":   {"", 0, 0},
	} {
		before := s.Calls("GetProducts")
		d, err := plan("order: cheapest\n", "exchange: {USD: 0.9}\n", price, "--json")
		if err != nil {
			t.Fatal(err)
		}
		var list []control.Prospect
		if err := json.Unmarshal(d.out.Bytes(), &list); err != nil || len(list) != 2 || list[0].Site != "cloud" || list[0].PriceSource != want.source || list[0].CostPerHour != want.hour || list[0].PriceAsked.IsZero() != (want.calls == 0) {
			t.Errorf("%q: the plan has %s, %v", price, d.out.String(), err)
		}
		if calls := s.Calls("GetProducts") - before; calls != want.calls {
			t.Errorf("%q: the price list was asked %d times", price, calls)
		}
	}
	d, err := plan("", "", "max_cost: 0.1, ", "--json") // half an hour of two machines
	var list []control.Prospect
	if err = errors.Join(err, json.Unmarshal(d.out.Bytes(), &list)); err != nil || len(list) != 2 || list[1].SlotSeconds <= 0 || list[1].SlotSeconds >= 1800 || list[1].Currency != "USD" {
		t.Errorf("of limited cost: %s, %v", d.out.String(), err)
	}
	s.Deny("GetProducts")
	d, err = plan("", "", "max_cost: 0.1, ", "--json")
	list = nil
	if err = errors.Join(err, json.Unmarshal(d.out.Bytes(), &list)); err != nil || len(list) != 2 || list[1].Usable || !strings.Contains(list[1].Reason, "max_cost") || !strings.Contains(list[1].Remedy, "price:") {
		t.Errorf("of limited cost without the right: %s, %v", d.out.String(), err)
	}
	d, err = plan("", "", "")
	if err != nil || !strings.Contains(d.out.String(), "pricing:GetProducts") {
		t.Errorf("without the right: %s, %v", d.out.String(), err)
	}
}

// TestPlacementOfThePlan: of a job with several machines, a plan has how its cloud places them.
func TestPlacementOfThePlan(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	dir := t.TempDir()
	job, sites := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "sites.yaml")
	for name, c := range map[string]struct {
		nodes           int
		kind, placement string
		word            string // of the plan; "": it has none of it
	}{
		"by default":       {2, ec2server.Small, "", "(`placement: cluster`)"},
		"required":         {2, ec2server.Small, "placement: {spread: required}, ", "(`placement: {spread: required}`)"},
		"none":             {2, ec2server.Small, "placement: none, ", ""},
		"one machine":      {1, ec2server.Small, "", ""},
		"type that cannot": {2, ec2server.Arm, "", ""},
	} {
		image := map[string]string{ec2server.Small: ec2server.Image, ec2server.Arm: ec2server.ImageArm}[c.kind]
		text := fmt.Sprintf("sites: [{name: cloud, provider: aws, slot: 1h, price: 1, aws: {types: [%s], image: %s, user: ann, %snetwork: {ssh_from: [203.0.113.7/32]}}}]\n", c.kind, image, c.placement)
		err := errors.Join(os.WriteFile(job, fmt.Appendf(nil, "image: busybox\nrun: \"true\"\nnodes: %d\n", c.nodes), 0o600), os.WriteFile(sites, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		d := newDesk(t)
		if err := d.bee("--sites", sites, "plan", job); err != nil {
			t.Fatal(err)
		}
		if got := d.out.String(); !strings.Contains(got, c.word) || strings.Contains(got, "`placement:") != (c.word != "") {
			t.Errorf("%s: the plan is\n%s", name, got)
		}
	}
}
