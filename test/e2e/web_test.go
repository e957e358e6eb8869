package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// pages are a `bee web` that runs.
type pages struct {
	t       *testing.T
	address string
}

// servePages starts `bee web`, and ends it with the test.
func servePages(t *testing.T, b *testkit.Bee, args ...string) *pages {
	t.Helper()
	c := b.Command(append([]string{"web", "--json"}, args...)...)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		err := c.Wait()
		if status, is := c.ProcessState.Sys().(syscall.WaitStatus); !is || status.Signal() != syscall.SIGTERM {
			t.Errorf("bee web ended with %v, expected the signal", err)
		}
	})
	var v struct{ Address string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &v)
	}
	if err != nil {
		t.Fatalf("bee web printed %q: %v", line, err)
	}
	return &pages{t, v.Address}
}

// base is the address without the secret.
func (p *pages) base() string {
	base, _, _ := strings.Cut(p.address, "/login")
	return base
}

// browser is Debian's Chromium with one page.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func browse(t *testing.T) browser {
	t.Helper()
	testkit.RequireTool(t, "chromium")
	dir := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Env("HOME="+dir), chromedp.Flag("disable-dev-shm-usage", true), chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return browser{t, ctx}
}

// visit opens an address.
func (b browser) visit(address string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(address)); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate returns the value of an expression on the page.
func evaluate[T any](b browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// shows waits until the text of the page has all of some texts.
func (b browser) shows(texts ...string) {
	b.t.Helper()
	testkit.Eventually(b.t, time.Minute, func() error {
		text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		if err != nil {
			return err
		}
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return fmt.Errorf("the page does not show %q:\n%s", want, text)
			}
		}
		return nil
	})
}

// axeFile is the script of axe that hack/deps.sh installs.
const axeFile = "/usr/local/share/bee-test/axe_core_python/axe.min.js"

// accessible checks the page by the rules of axe.
func (b browser) accessible(name string) {
	b.t.Helper()
	script, err := os.ReadFile(axeFile)
	if err != nil {
		testkit.Missing(b.t, "the test needs axe, which hack/deps.sh installs: %v", err)
	}
	evaluate[chromedp.Void](b, string(script))
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string]("axe.run().then((r) => r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.html).join(' ')))", chromedp.EvalAwaitPromise))
	if err != nil || len(found) > 0 {
		b.t.Errorf("%s: %v, %q", name, err, found)
	}
}

// picture checks that nothing is wider than the screen and that axe finds nothing, and keeps a picture where
// BEE_TEST_PICTURES names a directory.
func (b browser) picture(name string) {
	b.t.Helper()
	for _, width := range []int64{360, 1280} {
		for _, theme := range []string{"light", "dark"} {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}}
			err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 900), func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
				_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
				return none, err
			})
			if err != nil {
				b.t.Fatal(err)
			}
			if wide := evaluate[int64](b, "document.documentElement.scrollWidth"); wide > width {
				b.t.Errorf("%s takes %d pixels of %d", name, wide, width)
			}
			b.accessible(fmt.Sprintf("%s, %s, %d pixels wide", name, theme, width))
			if dir := os.Getenv("BEE_TEST_PICTURES"); dir != "" {
				png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, theme, width)), png, 0o644)
				}
				if err != nil {
					b.t.Error(err)
				}
			}
		}
	}
}

// TestPagesInABrowser: each page of `bee web` in a browser, with a run that ends meanwhile. Then
// runs are acted on by the buttons of their pages.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", `progress: {match: 'step (\d+) of (\d+)'}`, `metrics: {energy: 'Etot = (\S+)'}`, `run: |
  echo "<b>bold</b><script>document.title='taken'</script> $(printf '\342\200\256')turned"
  for n in 1 2 3 4 5; do echo "step $n of 10"; echo "Etot = -$n.5"; echo "note $n" >&2; done
  printf 'time,energy\n1,"a ""b"""\n' > table.csv; echo '<i>plain</i>' > 'a<b>.txt'
  until [ -e go ]; do sleep 0.1; done
  echo "the last line"`, "outputs: [{from: '/work/*', to: ./results}]")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n  - {name: local, provider: local, oversubscribe: true}\n  - {name: other, provider: local, oversubscribe: true}\n"))
	id := strings.TrimSpace(b.Must("run", "-d", job))
	a := startActed(b, job)
	p := servePages(t, b)
	page := browse(t)
	page.visit(p.address)
	page.shows("small", "running", "local", "50 %")
	page.picture("runs")
	page.visit(p.base() + "/#/runs/" + id)
	page.shows("The run computes.", "<b>bold</b><script>", `\u202eturned`, "step 5 of 10", "Metric energy", "Newest -5.5", "Cores in use", "Node 0 on ", "attempt 1 on local", "Job as submitted")
	page.picture("run")
	b.Touch(id, "/work/go")
	page.shows("The run succeeded", "the last line", "table.csv", "a<b>.txt")          // without a click
	view := func(file string) { page.press(`button[aria-label="View ` + file + `"]`) } // the list of outputs comes after the state
	view("table.csv")
	page.shows("time\tenergy", `a "b"`)
	view("a<b>.txt")
	page.shows("<i>plain</i>")
	evaluate[chromedp.Void](page, `document.querySelector('input[name=find]').value = 'note 3'; document.querySelector('section[aria-label=Log] form').requestSubmit()`)
	page.shows("1 line has this text.")
	page.picture("ended")
	page.visit(p.base() + "/#/?all=1&find=SMALL")
	page.shows("small", "succeeded")
	page.visit(p.base() + "/#/?all=1&find=other")
	page.shows("No run passes these filters.")
	page.visit(p.base() + "/#/sites")
	page.shows("local", "In order of priority")
	page.picture("sites")
	if title := evaluate[string](page, "document.title"); title != "bee: sites" {
		t.Errorf("title %q", title)
	}
	a.act(t, b, p, page)
	b.Must("rm", id)
}

// TestOthersCannotReadPages: neither another browser, nor a server at another port to which
// the browser sends the cookie, nor a page of that server, nor another user.
func TestOthersCannotReadPages(t *testing.T) {
	testkit.AsRootToo(t)
	b := testkit.NewBee(t)
	socket := filepath.Join(b.Dir, "bee.sock")
	p, forwarded := servePages(t, b), servePages(t, b, "--listen", "unix:"+socket)
	if !strings.HasPrefix(forwarded.address, "http://127.0.0.1:8080/login?secret=") {
		t.Errorf("address of a socket: %s", forwarded.address)
	}
	page := browse(t)
	page.visit(p.address)
	page.shows("No run is there")

	var cookie string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie = r.Header.Get("Cookie")
		_, err := fmt.Fprintf(w, `<title>other</title><iframe src="%[1]s/"></iframe><script>
fetch("%[1]s/api/runs", {credentials: "include"}).then((r) => r.text(), (e) => "refused").then((t) => document.title = "other: " + t)</script>`, p.base())
		if err != nil {
			t.Error(err)
		}
	}))
	defer other.Close()
	page.visit(other.URL)
	testkit.Eventually(t, time.Minute, func() error {
		if title, err := chromedp.Run(page.ctx, chromedp.Title()); err != nil || title != "other: refused" {
			return errors.Join(err, errors.New("title "+title))
		}
		return nil
	})
	if !strings.Contains(cookie, "bee-") {
		t.Errorf("the browser sent the cookie %q to another port, expected that of bee web", cookie)
	}
	for _, path := range []string{"/api/runs", "/api/events", "/metrics", "/api/sites"} {
		r, err := http.NewRequest("GET", p.base()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Cookie", cookie)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s with the cookie alone: %s", path, answer.Status)
		}
	}
	err := chromedp.Do(page.ctx, func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, network.ClearBrowserCookies, cdp.Empty{})
		return none, err
	})
	if err != nil {
		t.Fatal(err)
	}
	page.visit(p.base() + "/")
	page.shows("open the address that `bee web` has printed")

	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	stranger := func(command string) string {
		c := exec.Command("bash", "-c", command)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, _ := c.CombinedOutput() // the command is to be refused
		return string(out)
	}
	port := p.base()[strings.LastIndex(p.base(), ":")+1:]
	for _, path := range []string{"/", "/api/runs", "/metrics"} {
		if out := stranger(fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%s; printf 'GET %s HTTP/1.0\r\nHost: 127.0.0.1:%s\r\n\r\n' >&3; cat <&3`, port, path, port)); !strings.HasPrefix(out, "HTTP/1.0 401 ") {
			t.Errorf("another user gets %s: %s", path, out)
		}
	}
	for dir := b.Dir; dir != "/" && dir != "/tmp"; dir = filepath.Dir(dir) { // only the socket itself keeps others out
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out := stranger(`python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' ` + socket); !strings.Contains(out, "PermissionError") {
		t.Errorf("another user connects to the socket: %s", out)
	}
}
