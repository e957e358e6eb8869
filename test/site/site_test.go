// Package site checks the documentation as a site.
package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// mkdocs is the program that hack/deps.sh installs.
const mkdocs = "/usr/local/share/bee-test/site/bin/mkdocs"

// build makes a site by a configuration, and returns what was printed.
func build(t *testing.T, config, dir string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("it uses mkdocs and chromium; covered by `make test`")
	}
	if _, err := os.Stat(mkdocs); err != nil {
		testkit.Missing(t, "the test needs mkdocs, which hack/deps.sh installs: %v", err)
	}
	c := exec.CommandContext(t.Context(), mkdocs, "build", "--config-file", config, "--site-dir", dir)
	c.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NO_MKDOCS_2_WARNING=1")
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestSiteWithoutNetwork builds the site, and reads and searches it in a browser that opens files
// and has no network.
func TestSiteWithoutNetwork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := build(t, filepath.Join(testkit.Root(t), "mkdocs.yml"), dir); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := open(t, filepath.Join(dir, "index.html"))
	p.press(`.md-tabs a[href="tutorial/first-run.html"]`)
	p.until(`document.querySelector("h1")?.innerText.includes("Your first run")`)
	p.press(`.md-nav a[href="mpi.html"]`)
	p.until(`location.pathname.endsWith("/tutorial/mpi.html") && document.querySelector("h1")?.innerText.includes("MPI")`)
	p.until(`(() => { const query = document.querySelector("input[name=query]"); query.focus(); query.value = "virtiofs";
		query.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true})); return document.querySelector("a.md-search-result__link") !== null; })()`)
	p.press(`a.md-search-result__link[href*="virtiofs-without-root.html"]`)
	p.until(`location.pathname.endsWith("-virtiofs-without-root.html") && document.querySelector("h1") !== null`)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.addresses) < 10 {
		t.Errorf("only %d requests were seen", len(p.addresses))
	}
	for _, a := range p.addresses {
		if !strings.HasPrefix(a, "file://"+dir+"/") && !strings.HasPrefix(a, "data:") {
			t.Errorf("a page asks for %s", a)
		}
	}
}

// TestBrokenPages: links and pages that lead nowhere are errors. Those that leave docs lead to the
// sources, and lists are those of GitHub.
func TestBrokenPages(t *testing.T) {
	t.Parallel()
	const unlisted = "not-listed.md"
	root, dir := testkit.Root(t), t.TempDir()
	for name, text := range map[string]string{
		"mkdocs.yml": fmt.Sprintf("INHERIT: %[1]s/mkdocs.yml\ntheme: {custom_dir: %[1]s/hack/site/theme}\nhooks: [%[1]s/hack/site/hooks.py]\nnav: [README.md]\n", root),
		"docs/README.md": "# Home\n\n[a](no-page.md) [b](#no-heading) [c](../no-source.go) [d](../go.mod#L1)\n\n" +
			"1. Check:\n\n       bee doctor\n\n   ```yaml\n   - [e](../no-link)\n   ```\n\nA list:\n* one\n* two\n\n| a |\n|---|\n| `b\\|c` |\n",
		"docs/" + unlisted: "# Not listed\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := build(t, filepath.Join(dir, "mkdocs.yml"), filepath.Join(dir, "site"))
	if err == nil {
		t.Errorf("no error:\n%s", out)
	}
	for _, want := range []string{"no-page.md", "#no-heading", "no-source.go", unlisted} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not named:\n%s", want, out)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "site/index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`href="https://github.com/bee-hpc/bee/blob/main/go.mod#L1"`, `<li>two</li>`, `<code>b\|c</code>`, `(?s)<li>.*bee doctor\n</code></pre>.*<pre>.*\[.*e.*\].*</pre>.*</li>`} {
		if !regexp.MustCompile(want).Match(page) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
}

// page is that of Debian's Chromium, with the addresses that it has asked for.
type page struct {
	t         *testing.T
	ctx       context.Context
	mu        sync.Mutex
	addresses []string
}

// open shows a file in a browser that has a network of its own, in which nothing is.
func open(t *testing.T, file string) *page {
	t.Helper()
	chromium, home := testkit.RequireTool(t, "chromium"), t.TempDir()
	alone := filepath.Join(home, "chromium")
	if err := core.WriteProgram(alone, []byte("#!/bin/sh\nexec unshare --user --map-current-user --net "+chromium+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(alone), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(home, "profile")),
		chromedp.Env("HOME="+home), chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(e any) {
		if r, is := e.(*network.EventRequestWillBeSent); is {
			p.mu.Lock()
			p.addresses = append(p.addresses, r.Request.URL)
			p.mu.Unlock()
		}
	})
	if err == nil { // the search begins when its field gets the focus, which a page has that is seen
		err = chromedp.Do(ctx, func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
			_, err = cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
			return none, err
		}, chromedp.Navigate("file://"+file))
	}
	if err != nil {
		t.Fatalf("open %s: %v", file, err)
	}
	return p
}

// until waits until an expression is true on the page.
func (p *page) until(expression string) {
	p.t.Helper()
	testkit.Eventually(p.t, time.Minute, func() error {
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](expression))
		if err != nil || is {
			return err
		}
		text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("location + document.body.innerText.slice(0, 2000)"))
		return errors.Join(fmt.Errorf("%s is false on %s", expression, text), err)
	})
}

// press clicks on an element as soon as it is there, once the answer has left a page that ends by that.
func (p *page) press(selector string) {
	p.t.Helper()
	p.until("(() => { const e = document.querySelector('" + selector + "'); setTimeout(() => e?.click()); return e !== null; })()")
}
