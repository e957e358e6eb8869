package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// acted are the runs on which pages act: one writes checkpoints, and one is suspended, as its
// checkpoints have nothing new.
type acted struct{ saves, stuck string }

// startActed starts these runs with the image of another job.
func startActed(b *testkit.Bee, job string) acted {
	image, _, _ := strings.Cut(b.Read("job.yaml"), "workdir:")
	start := func(name, rest string) string {
		return strings.TrimSpace(b.Must("run", "-d", b.File(name+".yaml", strings.Replace(image, "small", name, 1)+"workdir: /work\n"+rest)))
	}
	return acted{
		saves: start("saves", "checkpoint: {grace: 10s, file: STOP, paths: [state]}\nrun: until [ -e STOP ]; do sleep 0.1; done; echo more >>state\n"),
		stuck: start("stuck", "checkpoint: {grace: 1s}\nrun: exit 85\n"),
	}
}

// until waits until an expression on the page is true.
func (b browser) until(expression string) {
	b.t.Helper()
	testkit.Eventually(b.t, time.Minute, func() error {
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if err != nil || is {
			return err
		}
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		return errors.Join(fmt.Errorf("%s is false on the page:\n%s", expression, text), err)
	})
}

// press clicks on an element as soon as it is there. A click at a place on the screen would miss it
// where the page changes meanwhile.
func (b browser) press(selector string) {
	b.t.Helper()
	b.until("(() => { const e = document.querySelector(`" + selector + "`); e?.click(); return e !== null; })()")
}

// open clicks on a button of the page of a run, which opens the dialog.
func (b browser) open(action string) {
	b.t.Helper()
	b.press("button[data-action=" + action + "]:enabled")
	b.until("document.querySelector('dialog[open]') !== null")
}

// confirm clicks on the button that asks for what the dialog shows.
func (b browser) confirm() {
	b.t.Helper()
	b.press("dialog[open] button:not([type]):enabled")
}

// asked confirms, and waits until the page reports that this was asked. Where the run has changed since
// the dialog of the action was opened, it is opened again, as its user would.
func (b browser) asked(action string) {
	b.t.Helper()
	const done = "(document.querySelector('dialog[open]') === null && document.activeElement.getAttribute('role') === 'status')"
	for b.confirm(); ; b.confirm() {
		b.until(done + " || document.querySelector('dialog[open] button:not([type])')?.hidden === true")
		if evaluate[bool](b, done) {
			return
		}
		b.escape()
		b.open(action)
	}
}

// problem waits until the dialog reports an error, and returns its text.
func (b browser) problem() string {
	b.t.Helper()
	b.until("document.querySelector('dialog[open] [role=alert]:not([hidden])') !== null")
	return evaluate[string](b, "document.querySelector('dialog [role=alert]').textContent")
}

// escape presses that key, which closes the dialog.
func (b browser) escape() {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.KeyEvent(kb.Escape)); err != nil {
		b.t.Fatal(err)
	}
	b.until("document.querySelector('dialog[open]') === null")
}

// asleep has the page read nothing of a run until wake() is called on it, as that of a laptop whose
// lid is closed. Requests for actions pass.
const asleep = `(() => {
  const real = window.fetch, waiting = [];
  window.fetch = (path, options) => options?.method === 'POST' ? real(path, options)
    : new Promise((done) => waiting.push(() => done(real(path, { ...options, signal: undefined }))));
  window.wake = () => { window.fetch = real; waiting.forEach((go) => go()); };
})()`

// unanswered has the page get no answer to its requests for actions until wake() is called on it.
const unanswered = `(() => {
  const real = window.fetch;
  window.fetch = (path, options) => options?.method === 'POST' ? Promise.reject(new TypeError('no connection')) : real(path, options);
  window.wake = () => { window.fetch = real; };
})()`

// attemptOf waits until a run computes in its n-th attempt, and returns its site.
func attemptOf(t *testing.T, b *testkit.Bee, id string, n int) (site string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		var v struct {
			State    string
			Progress struct {
				Attempt int
				State   string
			}
			Attempts []struct{ Site string }
		}
		if b.JSON(&v, "show", "--json", id); v.Progress.Attempt != n || v.Progress.State != "running" {
			return b.Explained(id, fmt.Sprintf("it is %+v, expected attempt %d", v, n))
		}
		site = v.Attempts[n-1].Site
		return nil
	})
	return site
}

// act presses the buttons of pages. Each one shows its command first, and does what that does.
func (a acted) act(t *testing.T, b *testkit.Bee, p *pages, page browser) {
	page.visit(p.base() + "/#/runs/" + a.saves)
	page.open("stop")
	page.shows("bee stop " + a.saves)
	page.accessible("question")
	page.escape()

	// Of a page that is stale, nothing is done.
	evaluate[chromedp.Void](page, asleep)
	page.open("stop")
	b.Must("checkpoint", a.saves)
	from := attemptOf(t, b, a.saves, 2)
	page.confirm()
	if text := page.problem(); !strings.Contains(text, a.saves) {
		t.Errorf("a stale page shows %q", text)
	}
	evaluate[chromedp.Void](page, "wake()")
	page.until("document.querySelector('dialog[open] button:not([type])')?.hidden === true")
	page.escape()

	// A command that fails is shown, and nothing that was asked without an answer is denied.
	to := map[string]string{"local": "other", "other": "local"}[from]
	page.open("move")
	evaluate[chromedp.Void](page, fmt.Sprintf("(() => { const s = document.querySelector('dialog select'); s.value = %q; s.dispatchEvent(new Event('change')); })()", to))
	page.shows("bee move --site " + to + " " + a.saves)
	sites := b.Read("sites.yaml")
	b.File("sites.yaml", "sites: 5\n")
	page.confirm()
	if text := page.problem(); !strings.Contains(text, "sites.yaml") {
		t.Errorf("with a sites file that cannot be read, the page shows %q", text)
	}
	b.File("sites.yaml", sites)
	evaluate[chromedp.Void](page, unanswered)
	page.confirm()
	page.until("!document.querySelector('dialog [role=alert]').textContent.includes('sites.yaml')")
	if page.problem(); attemptOf(t, b, a.saves, 2) != from {
		t.Error("the run moved without a request")
	}
	evaluate[chromedp.Void](page, "wake()")
	page.asked("move")
	page.shows("attempt 3 on " + to)
	attemptOf(t, b, a.saves, 3)

	page.open("stop")
	page.asked("stop")
	page.open("again")
	if v := b.Await(a.saves, 0); v.State != "stopped" || len(v.Attempts) != 3 {
		t.Errorf("the run that was stopped by its page: %+v", v)
	}
	page.asked("again")
	var runs []struct{ ID, Name, State string }
	b.JSON(&runs, "ps", "--json", "--all")
	again := ""
	for _, r := range runs {
		if r.Name == "saves" && r.ID != a.saves {
			again = r.ID
		}
	}
	if again == "" {
		t.Fatalf("there is no new run: %+v", runs)
	}
	page.press("[role=status] a[href$='" + again + "']")
	page.open("checkpoint")
	page.asked("checkpoint")
	attemptOf(t, b, again, 2)

	page.visit(p.base() + "/#/runs/" + a.stuck)
	var before testkit.RunView
	page.open("resume")
	b.JSON(&before, "show", "--json", a.stuck)
	page.asked("resume")
	page.shows(fmt.Sprintf("attempt %d on ", len(before.Attempts)+1))
	b.Must("stop", again, a.stuck)
}
