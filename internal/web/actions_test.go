package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
)

// TestActionsOfPages: a page alone can ask something of a run, each action by POST with cookie,
// key and origin, and for the attempt that it has shown.
func TestActionsOfPages(t *testing.T) {
	for _, name := range []report.ActionName{report.ActionStop, report.ActionCheckpoint, report.ActionMove, report.ActionResume, report.ActionAgain} {
		t.Run(string(name), func(t *testing.T) {
			var asked []Asked
			b := open(t, New(facts{asked: &asked}))
			path := "/api/runs/run1/actions/" + string(name) + "?attempt=2&site=rack"
			for what, c := range map[string]struct {
				method string
				change func(*http.Request)
				code   int
			}{
				"no cookie":      {"POST", func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
				"no key":         {"POST", func(r *http.Request) { r.Header.Del(keyHeader) }, http.StatusUnauthorized},
				"an old key":     {"POST", func(r *http.Request) { r.Header.Set(keyHeader, "AAAAAAAAAAAAAAAAAAAAAAAAAA") }, http.StatusUnauthorized},
				"no origin":      {"POST", func(r *http.Request) { r.Header.Del("Origin") }, http.StatusForbidden},
				"a null origin":  {"POST", func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
				"another port":   {"POST", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:8024") }, http.StatusForbidden},
				"another origin": {"POST", func(r *http.Request) { r.Header.Set("Origin", "http://attacker.example") }, http.StatusForbidden},
				"by GET":         {"GET", func(r *http.Request) { r.Header.Set("Origin", "http://"+host) }, http.StatusMethodNotAllowed},
				"by PUT":         {"PUT", func(r *http.Request) { r.Header.Set("Origin", "http://"+host) }, http.StatusMethodNotAllowed},
				"no attempt":     {"POST", func(r *http.Request) { r.URL.RawQuery = "" }, http.StatusBadRequest},
				"a stale page":   {"POST", func(r *http.Request) { r.URL.RawQuery = "attempt=1" }, http.StatusBadRequest},
			} {
				if got := b.ask(c.method, path, c.change); got.Code != c.code {
					t.Errorf("%s: %d, %s", what, got.Code, got.Body)
				}
			}
			if len(asked) > 0 {
				t.Fatalf("was asked %+v", asked)
			}
			got := b.ask("POST", path, nil)
			var done Done
			if err := json.Unmarshal(got.Body.Bytes(), &done); err != nil || got.Code != http.StatusOK || len(done.Printed) != 1 {
				t.Errorf("%d, %s", got.Code, got.Body)
			}
			if !slices.Equal(asked, []Asked{{name, 2, "rack"}}) {
				t.Errorf("was asked %+v", asked)
			}
		})
	}
	got := open(t, New(facts{})).ask("POST", "/api/runs/run1/actions/stop?attempt=1", nil)
	var f failure
	if err := json.Unmarshal(got.Body.Bytes(), &f); err != nil || f.Error.Kind != core.Invalid.String() || f.Error.Remedy == "" {
		t.Errorf("a stale page gets %s", got.Body)
	}
}
