package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/test/records"
	"github.com/chromedp/chromedp"
)

// TestPagesOfManyRuns: with as many runs on record as years bring, and a log of a gigabyte, pages
// are there at once.
func TestPagesOfManyRuns(t *testing.T) {
	testkit.Long(t, "TestPagesInABrowser")
	b, job := busyboxJob(t, "run: yes 'a line of the log' | head -c 1000000000; echo; echo the last line")
	b.Oversubscribe()
	for _, v := range b.Env {
		if dir, is := strings.CutPrefix(v, "BEE_STATE="); is {
			if err := records.Runs(t.Context(), dir, 100_000); err != nil {
				t.Fatal(err)
			}
		}
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	b.Must("wait", id)
	p := servePages(t, b)
	page := browse(t)
	page.visit(p.address)
	page.shows("old")
	page.visit("about:blank")
	page.visit(p.base() + "/#/?all=1")
	first := page.untilShown("main tbody tr")
	page.shows("small", "succeeded")

	page.visit("about:blank")
	page.visit(p.base() + "/#/runs/" + id)
	log := page.untilShown("section[aria-label=Log]")
	page.shows("The run succeeded", "the last line")
	evaluate[chromedp.Void](page, `document.querySelector('input[name=find]').value = 'the last'; document.querySelector('section[aria-label=Log] form').requestSubmit()`)
	page.shows("1 line has this text.")
	testkit.Figure(t, "100,000 runs on record: the first row of `bee web` after %v, a run with a log of 1 GB after %v", first, log)
	for what, took := range map[string]time.Duration{"the list": first, "the run": log} {
		if took > 30*time.Second { // on a busy machine
			t.Errorf("%s is shown after %v", what, took)
		}
	}
}

// untilShown waits for an element, and returns how long after the visit it was there.
func (b browser) untilShown(selector string) time.Duration {
	b.t.Helper()
	script := fmt.Sprintf(`new Promise((done) => { const look = () => document.querySelector(%q) ? done(performance.now()) : requestAnimationFrame(look); look() })`, selector)
	took, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return time.Duration(took * float64(time.Millisecond))
}

// TestTenThousandCases: short cases in packs on two hosts, of which each runs once.
func TestTenThousandCases(t *testing.T) {
	testkit.Long(t, "TestAnArrayOverThreeSites")
	const cases, pack = 10_000, 1000
	b, job := busyboxJob(t, fmt.Sprintf("array: {cases: {n: {from: 1, to: %d}}, pack: %d}", cases, pack), "run: 'true'")
	b.Env = append(b.Env, "BEE_SITES="+labSites(b, "2"))
	begun := time.Now()
	b.Must("run", "-q", job)
	took := time.Since(begun)
	var list []studyRow
	b.JSON(&list, "ps", "-a", "--json", "small")
	packs := map[string]bool{}
	for _, r := range list {
		if r.State != "succeeded" || r.Pack == "" {
			t.Fatalf("case %s is %s, of pack %q", r.Name, r.State, r.Pack)
		}
		packs[r.Pack] = true
	}
	leases := 0
	for pack := range packs {
		var v testkit.RunView
		b.JSON(&v, "show", "--json", pack)
		for i, a := range v.Attempts {
			if len(a.Hosts) == 0 { // the site had no room
				continue
			}
			if leases++; i < len(v.Attempts)-1 {
				t.Log("more than one lease:\n" + b.Must("show", pack))
			}
		}
	}
	if len(list) != cases || len(packs) != cases/pack || leases != len(packs) {
		t.Errorf("%d cases in %d packs, with %d leases", len(list), len(packs), leases)
	}
	testkit.Figure(t, "an array of %d cases in %d packs on two emulated hosts: %.1f s", cases, len(packs), took.Seconds())
}
