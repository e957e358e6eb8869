package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/chromedp/chromedp"
)

// TestArrayInABrowser: an array as a grid by state and by a metric, and two of its cases side by side.
func TestArrayInABrowser(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, `metrics: {energy: 'E = (\S+)'}`, "array: {cases: {t: [300, 1000, 310], kind: [plain, '<b>bold</b>']}}",
		"run: 'echo E = -${case.t}.5; test ${case.t} != 310'")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites: [{name: local, provider: local, oversubscribe: true}]\n"))
	array := strings.TrimSpace(b.Must("run", "-d", job))
	b.Try("wait", array) // two cases fail

	table := strings.Split(b.Must("show", "--csv", array), "\n")
	if !strings.HasSuffix(table[0], ",currency,metric.energy") || !strings.HasSuffix(table[1], ",-300.5") {
		t.Errorf("bee show --csv:\n%s\n%s", table[0], table[1])
	}

	p := servePages(t, b)
	page := browse(t)
	page.visit(p.address)
	page.visit(p.base() + "/#/arrays/small")
	page.shows("small", "<b>bold</b>", "300", "310", "1000", "List of its cases")
	grid := func(n int) string {
		return evaluate[string](page, fmt.Sprintf(`[...document.querySelectorAll('table.grid')[%d].rows].map((r) => [...r.cells].map((c) => c.innerText.trim()).join(' ')).join('; ')`, n))
	}
	if got, want := grid(0), `t \ kind <b>bold</b> plain; 300 S S; 310 F F; 1000 S S`; got != want {
		t.Errorf("the grid is %q, expected %q", got, want)
	}
	page.picture("array")
	page.visit(p.base() + "/#/arrays/small?by=t,kind&metric=energy")
	page.shows("-300.5", "-1000", "Metric energy")
	if got, want := grid(0), `kind \ t 300 310 1000; <b>bold</b> S F S; plain S F S`; got != want {
		t.Errorf("the grid is %q, expected %q", got, want)
	}
	if n := evaluate[int64](page, "document.querySelectorAll('svg.plot circle').length"); n != 6 {
		t.Errorf("the plot has %d points, expected 6", n)
	}
	page.picture("array-metric")

	b.Must("report", "--by", "t,kind", "small", "-o", "study.html")
	if text := b.Read("study.html"); !strings.Contains(text, "&lt;b&gt;bold&lt;/b&gt;") || strings.Contains(text, "<a ") {
		t.Errorf("bee report of the array:\n%s", text)
	}
	first, second := caseID(b, array, 1), caseID(b, array, 5)
	page.visit(p.base() + "/#/runs/" + first)
	page.shows("or name of another run")
	evaluate[chromedp.Void](page, `document.querySelector('input[name=with]').value = '`+second+`'; document.querySelector('form[aria-label=Compare]').requestSubmit()`)
	page.shows("job: run", "test 310 != 310", "exit code", "metric: energy", "-310.5")
	page.picture("compare")
	if text := evaluate[string](page, "document.body.innerText"); strings.Contains(text, "job: nodes") {
		t.Errorf("what is equal is shown, too:\n%s", text)
	}
}

// caseID is the id of a case of an array.
func caseID(b *testkit.Bee, array string, number int) string {
	var list []struct {
		ID    string `json:"id"`
		Array struct {
			Case int `json:"case"`
		} `json:"array"`
	}
	b.JSON(&list, "ps", "--json", array)
	for _, r := range list {
		if r.Array.Case == number {
			return r.ID
		}
	}
	return ""
}
