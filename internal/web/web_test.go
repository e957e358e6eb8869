package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/report/page"
)

// facts are records of one run, "run1".
type facts struct {
	dir string
	// asked is what was done, unless nil.
	asked *[]Asked
}

func (facts) Runs(context.Context, url.Values) (any, error) { return []string{"run1"}, nil }

func (facts) Run(_ context.Context, id string) (any, error) {
	if id != "run1" {
		return nil, &core.Error{Kind: core.NotFound, Op: "find run", Object: id, Err: errors.New("no such run"), Remedy: "List them."}
	}
	return map[string]string{"id": id}, nil
}

func (facts) Array(context.Context, string, url.Values) (any, error) {
	return map[string]string{}, nil
}

func (facts) Compare(context.Context, string, string) (any, error) { return map[string]string{}, nil }

func (facts) Measured(context.Context, string) (any, error) { return map[string]string{}, nil }

func (facts) Page(context.Context, string) (*page.Page, error) { return &page.Page{ID: "run1"}, nil }

func (facts) Log(_ context.Context, _ string, part LogPart, show func(LogPiece) error) error {
	return show(LogPiece{Text: part.Find + "\n"})
}

func (facts) Actions(context.Context, string) ([]report.Action, error) {
	return []report.Action{{Name: report.ActionStop, Does: "The run ends.", Attempt: 2}}, nil
}

// Act does what is asked of attempt 2 only.
func (f facts) Act(_ context.Context, id string, asked Asked) (Done, error) {
	if asked.Attempt != 2 {
		return Done{}, &core.Error{Kind: core.Invalid, Op: "ask", Object: id, Err: errors.New("it has another attempt"), Remedy: "Look again."}
	}
	if f.asked != nil {
		*f.asked = append(*f.asked, asked)
	}
	return Done{Printed: []string{"asked"}}, nil
}

func (f facts) Outputs(context.Context, string) ([]Place, error) {
	return []Place{{To: f.dir, Files: []File{{Name: "result"}, {Name: "link"}, {Name: "a\"b\n.txt"}}}}, nil
}

func (facts) Sites(context.Context) (any, error) { return map[string]string{}, nil }

func (facts) Events(_ context.Context, show func(any) error) error {
	return show(map[string]string{"run": "run1"})
}

func (facts) Metrics(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "# EOF\n")
	return err
}

// host is how a browser reaches the server.
const host = "127.0.0.1:8023"

// browser is a browser that has opened the address of a server.
type browser struct {
	t      *testing.T
	server *Server
	cookie *http.Cookie
	key    string
}

func open(t *testing.T, server *Server) *browser {
	t.Helper()
	b := &browser{t: t, server: server}
	answer := b.ask("GET", server.Login(), nil)
	if answer.Code != http.StatusOK || len(answer.Result().Cookies()) != 1 {
		t.Fatalf("login: %d, %q", answer.Code, answer.Body)
	}
	b.cookie = answer.Result().Cookies()[0]
	b.key = regexp.MustCompile(`name="bee-key" content="([A-Z2-7]+)"`).FindStringSubmatch(answer.Body.String())[1]
	return b
}

// ask makes a request as a page of the server does; change may alter it.
func (b *browser) ask(method, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://"+host+path, nil)
	if b.cookie != nil {
		r.AddCookie(b.cookie)
		r.Header.Set(keyHeader, b.key)
	}
	if method == http.MethodPost { // as browsers do
		r.Header.Set("Origin", "http://"+host)
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	b.server.Handler().ServeHTTP(w, r)
	return w
}

// inAddress is a pattern of the server as an address has it.
func inAddress(pattern string) string {
	return strings.NewReplacer("{run}", "run1", "{action}", "stop").Replace(pattern)
}

// paths are all that the server answers.
func paths(s *Server) []string {
	all := []string{"GET /", "GET /app.js", "GET /style.css", "GET /icon.svg", "GET /files/x", "GET /nothing", "POST /login", "GET /login?secret=wrong"}
	for path := range s.api() {
		all = append(all, inAddress(path))
	}
	return all
}

// TestAllIsRefused: whoever is not the user's browser gets 401 or 403, whatever is asked for.
func TestAllIsRefused(t *testing.T) {
	s := New(facts{})
	b := open(t, s)
	for name, change := range map[string]func(*http.Request){
		"no cookie":                func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Del(keyHeader) },
		"the key, no cookie":       func(r *http.Request) { r.Header.Del("Cookie") },
		"cookie of another port":   func(r *http.Request) { r.Header.Set("Cookie", "bee-8024="+b.cookie.Value) },
		"cookie of an old process": func(r *http.Request) { r.Header.Set("Cookie", b.cookie.Name+"=AAAAAAAAAAAAAAAAAAAAAAAAAA") },
		"rebound name":             func(r *http.Request) { r.Host = "attacker.example:8023" },
		"name like the loopback":   func(r *http.Request) { r.Host = "127.0.0.1.attacker.example" },
		"user in the name":         func(r *http.Request) { r.Host = "a@127.0.0.1:8023" },
		"address of this machine":  func(r *http.Request) { r.Host = "192.0.2.1:8023" },
		"no name":                  func(r *http.Request) { r.Host = "" },
		"another origin":           func(r *http.Request) { r.Header.Set("Origin", "http://attacker.example") },
		"another port":             func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8024") },
		"no origin":                func(r *http.Request) { r.Header.Set("Origin", "null") },
		"a page of another site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"a page of another port":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"a frame": func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Header.Set("Sec-Fetch-Dest", "iframe")
		},
	} {
		for _, p := range paths(s) {
			method, path, _ := strings.Cut(p, " ")
			if got := b.ask(method, path, change); got.Code != http.StatusUnauthorized && got.Code != http.StatusForbidden {
				t.Errorf("%s: %s is answered with %d", name, p, got.Code)
			}
		}
	}
}

// TestACookieIsNotEnough: another port gets the cookie of the browser, but not the key.
func TestACookieIsNotEnough(t *testing.T) {
	s := New(facts{})
	b := open(t, s)
	for path := range s.api() {
		method, path, _ := strings.Cut(inAddress(path), " ")
		if got := b.ask(method, path, func(r *http.Request) { r.Header.Del(keyHeader) }); got.Code != http.StatusUnauthorized {
			t.Errorf("%s is answered with %d", path, got.Code)
		}
		if got := b.ask(method, path, nil); got.Code == http.StatusUnauthorized || got.Code == http.StatusForbidden {
			t.Errorf("%s with the key: %d", path, got.Code)
		}
	}
}

func TestTheSecretWorksOnce(t *testing.T) {
	s := New(facts{})
	used := 0
	s.Used = func() { used++ }
	first := s.Login()
	b := open(t, s)
	if c := b.cookie; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Name != "bee-8023" {
		t.Errorf("%+v", c)
	}
	if got := (&browser{server: s}).ask("GET", first, nil); got.Code != http.StatusForbidden || len(got.Result().Cookies()) > 0 {
		t.Errorf("again: %d", got.Code)
	}
	if used != 1 || s.Login() == first {
		t.Errorf("used %d times, next address %q", used, s.Login())
	}
	open(t, s)
}

// timed has the time limit for reading a request, as net/http gives one.
type timed struct {
	*httptest.ResponseRecorder
	limited bool
}

// SetReadDeadline is called by http.ResponseController.
func (t *timed) SetReadDeadline(at time.Time) error {
	t.limited = !at.IsZero()
	return nil
}

// TestAnswersTakeTheirTime: only requests with the key have no time limit.
func TestAnswersTakeTheirTime(t *testing.T) {
	s := New(facts{})
	b := open(t, s)
	for _, p := range paths(s) {
		method, path, _ := strings.Cut(p, " ")
		for _, key := range []string{"", b.key} {
			r := httptest.NewRequest(method, "http://"+host+path, nil)
			r.AddCookie(b.cookie)
			r.Header.Set(keyHeader, key)
			w := &timed{httptest.NewRecorder(), true}
			s.Handler().ServeHTTP(w, r)
			if keyed := strings.HasPrefix(path, "/api/") || path == "/metrics"; w.limited != (key == "" || !keyed) {
				t.Errorf("%s, with the key %t: limited %t", p, key != "", w.limited)
			}
		}
	}
}

// TestSilentConnectionsToPages: others who connect, and ask for nothing, keep nobody out, and
// do not end what the user has open.
func TestSilentConnectionsToPages(t *testing.T) {
	s := New(facts{})
	b := open(t, s)
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	r, err := http.NewRequest(http.MethodGet, Address(listener)+"/api/runs/run1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: s.cookieName(r), Value: b.cookie.Value})
	r.Header.Set(keyHeader, b.key)
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	get := func() (reused bool) {
		trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
		answer, err := client.Do(r.WithContext(httptrace.WithClientTrace(t.Context(), trace)))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("%s, %v", answer.Status, err)
		}
		return reused
	}
	get()
	for range 2 * mostAtOnce {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if !get() {
		t.Error("the connection of the user was closed")
	}
	client.CloseIdleConnections()
	get()
	client.CloseIdleConnections()
	end()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestHeadersOfEachAnswer(t *testing.T) {
	s := New(facts{})
	b := open(t, s)
	for _, p := range append(paths(s), "GET /favicon.ico") {
		method, path, _ := strings.Cut(p, " ")
		h := b.ask(method, path, nil).Header()
		if policy := h.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %q", p, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", p, h)
		}
	}
}

// TestFilesOfPagesAreSmall: all that a browser loads, below 300 kB.
func TestFilesOfPagesAreSmall(t *testing.T) {
	total := len(page.Style)
	entries, err := files.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	outside := regexp.MustCompile(`https?://[a-z]`)
	for _, e := range entries {
		raw, err := files.ReadFile("static/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		total += len(raw)
		text := strings.ReplaceAll(string(raw), "http://www.w3.org/2000/svg", "")
		if outside.MatchString(text) || strings.Contains(text, "innerHTML") || strings.Contains(text, "eval(") {
			t.Errorf("%s loads from outside, or makes markup of text", e.Name())
		}
		if got := open(t, New(facts{})).ask("GET", "/"+strings.Replace(e.Name(), "index.html", "", 1), nil); got.Code != http.StatusOK {
			t.Errorf("%s: %d", e.Name(), got.Code)
		}
	}
	if total > 300_000 {
		t.Errorf("%d bytes", total)
	}
}

func TestErrorsHaveKindAndRemedy(t *testing.T) {
	got := open(t, New(facts{})).ask("GET", "/api/runs/other", nil)
	var f failure
	if err := json.Unmarshal(got.Body.Bytes(), &f); err != nil || got.Code != http.StatusNotFound || f.Error.Kind != core.NotFound.String() || f.Error.Message == "" || f.Error.Remedy != "List them." {
		t.Errorf("%d, %s", got.Code, got.Body)
	}
}

// TestOnlyCollectedFilesAreOpened: neither others beside them, nor where a link leads.
func TestOnlyCollectedFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"to/result": "fine", "to/other": "secret", "to/a\"b\n.txt": "name", "outside": "secret"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(dir, "to")
	if err := os.Symlink("../outside", filepath.Join(to, "link")); err != nil {
		t.Fatal(err)
	}
	b := open(t, New(facts{dir: to}))
	path := func(place, name string) string {
		return "/api/runs/run1/output?" + url.Values{"place": {place}, "name": {name}}.Encode()
	}
	if got := b.ask("GET", path(to, "result"), nil); got.Body.String() != "fine" || got.Header().Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(got.Header().Get("Content-Security-Policy"), "sandbox;") {
		t.Errorf("%d, %q, %v", got.Code, got.Body, got.Header())
	}
	for _, p := range []string{path(to, "other"), path(to, "link"), path(to, "../outside"), path(dir, "outside"), path("/etc", "passwd"), path(to, "/etc/passwd")} {
		for _, method := range []string{"GET", "POST"} {
			if got := b.ask(method, p, nil); got.Code != http.StatusNotFound || strings.Contains(got.Body.String(), "root:") {
				t.Errorf("%s %s: %d, %q", method, p, got.Code, got.Body)
			}
		}
	}
	offered := b.ask("POST", path(to, "a\"b\n.txt"), nil)
	link := regexp.MustCompile(`"link":"(files/[A-Z2-7]+)"`).FindStringSubmatch(offered.Body.String())
	if link == nil {
		t.Fatalf("%d, %q", offered.Code, offered.Body)
	}
	noKey := func(r *http.Request) { r.Header.Del(keyHeader) } // as a browser follows a link
	if got := b.ask("GET", "/"+link[1], noKey); got.Body.String() != "name" || !strings.HasPrefix(got.Header().Get("Content-Disposition"), "attachment; ") || strings.Contains(got.Header().Get("Content-Disposition"), "\n") {
		t.Errorf("%d, %q, %v", got.Code, got.Body, got.Header())
	}
	if got := b.ask("GET", "/"+link[1], noKey); got.Code != http.StatusForbidden {
		t.Errorf("the link again: %d", got.Code)
	}
}

func TestWhereItListens(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.org:80", "127.0.0.1", "unix:/nowhere/bee.sock", ""} {
		if l, err := Listen(t.Context(), address); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%q: %v, %v", address, l, err)
		}
	}
	path := filepath.Join(t.TempDir(), "bee.sock")
	l, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); err == nil {
		t.Error("two listen at one path")
	}
}
