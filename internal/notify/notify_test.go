package notify

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

const run = "aaaabbbb"

// notifierOf is a Notifier of one run, whose tries follow each other quickly.
func notifierOf(t *testing.T, r state.Run, receivers ...spec.Notify) *Notifier {
	t.Helper()
	store, err := state.Open(t.Context(), filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r.ID, r.Name, r.Submission = run, "pi", []byte("{}")
	if r.Created.IsZero() {
		r.Created = time.Now()
	}
	if err := errors.Join(Prepare(store, run), store.PutRun(t.Context(), r)); err != nil {
		t.Fatal(err)
	}
	n := &Notifier{
		Store: store, Log: slog.New(slog.DiscardHandler), Run: run, first: time.Millisecond,
		Body: func(_ context.Context, r state.Run) ([]byte, error) {
			return []byte(`{"state":"` + string(r.State) + `"}`), nil
		},
		Text: func(context.Context, state.Run) (string, error) {
			return "The run failed.\nX-Evil: no\n.\nübel\n", nil
		},
		Secret: func(_ context.Context, s spec.Secret) (string, error) { return s.Env, nil },
	}
	for _, one := range receivers {
		n.Receivers = append(n.Receivers, Receiver{Notify: one, Dir: t.TempDir()})
	}
	return n
}

func (n *Notifier) add(t *testing.T, fields ...event.Fields) {
	t.Helper()
	for _, f := range fields {
		if _, err := n.Store.AddEvent(t.Context(), event.Event{Run: run, Fields: f}); err != nil {
			t.Fatal(err)
		}
	}
}

// hook is a server that keeps what it got.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	got    []string // event and id of each request
	answer func(n int, w http.ResponseWriter, r *http.Request)
}

func newHook(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *hook {
	h := &hook{answer: answer}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.got = append(h.got, r.Header.Get("Bee-Event")+" "+r.Header.Get("webhook-id"))
		n := len(h.got)
		h.mu.Unlock()
		body, err := io.ReadAll(r.Body) // else the server does not notice a client that is gone
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if h.answer != nil {
			h.answer(n, w, r)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.got)
}

// TestOrderOverFailures: each receiver gets all of its events in their order, however often
// it fails and whatever another one does, and nothing stays.
func TestOrderOverFailures(t *testing.T) {
	failing := newHook(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	good := newHook(t, nil)
	all := []string{"moved", "ended"}
	n := notifierOf(t, state.Run{State: state.Failed}, spec.Notify{Webhook: failing.URL, On: all}, spec.Notify{Webhook: good.URL, On: all}, spec.Notify{Webhook: good.URL + "/none", On: []string{"suspended"}})
	n.add(t, event.Moved{Site: "a"}, event.Moved{Site: "b"})
	if pending, err := n.Pending(t.Context()); !pending || err != nil {
		t.Errorf("pending %v, %v", pending, err)
	}
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	three := func(s string) []string { return []string{s, s, s} }
	if got, want := failing.all(), slices.Concat(three("moved aaaabbbb-1"), three("moved aaaabbbb-2"), three("ended aaaabbbb-3")); !slices.Equal(got, want) {
		t.Errorf("the failing one got %q, want %q", got, want)
	}
	if got, want := good.all(), []string{"moved aaaabbbb-1", "moved aaaabbbb-2", "ended aaaabbbb-3"}; !slices.Equal(got, want) {
		t.Errorf("the other got %q, want %q", got, want)
	}
	if Has(n.Store, run) {
		t.Error("its directory is still there")
	}
}

// TestNothingIsLostWithTheProcess: another one continues where the first one was broken off,
// and sends with the same number what may not have arrived.
func TestNothingIsLostWithTheProcess(t *testing.T) {
	ctx, kill := context.WithCancel(t.Context())
	h := newHook(t, nil)
	h.answer = func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 2 {
			kill()
			<-r.Context().Done()
		}
	}
	n := notifierOf(t, state.Run{State: state.Succeeded}, spec.Notify{Webhook: h.URL, On: []string{"moved", "ended"}})
	n.add(t, event.Moved{Site: "a"}, event.Moved{Site: "b"})
	if err := n.Serve(ctx); err != nil {
		t.Fatal(err)
	}
	ids, err := Unattended(n.Store)
	if err != nil || !slices.Equal(ids, []string{run}) {
		t.Fatalf("unattended: %q, %v", ids, err)
	}
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := h.all(), []string{"moved aaaabbbb-1", "moved aaaabbbb-2", "moved aaaabbbb-2", "ended aaaabbbb-3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if ids, err := Unattended(n.Store); err != nil || len(ids) > 0 {
		t.Errorf("unattended: %q, %v", ids, err)
	}
}

// TestASlowReceiverDelaysNoOther.
func TestASlowReceiverDelaysNoOther(t *testing.T) {
	release := make(chan struct{})
	slow, quick := newHook(t, func(int, http.ResponseWriter, *http.Request) { <-release }), newHook(t, nil)
	quick.answer = func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 2 {
			close(release)
		}
	}
	on := []string{"moved", "ended"}
	n := notifierOf(t, state.Run{State: state.Succeeded}, spec.Notify{Webhook: slow.URL, On: on}, spec.Notify{Webhook: quick.URL, On: on})
	n.add(t, event.Moved{Site: "a"})
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(slow.all()) != 2 || len(quick.all()) != 2 {
		t.Errorf("got %q and %q", slow.all(), quick.all())
	}
}

// TestGivenUp: what could not be sent for a day is in the history, and the next event is
// sent.
func TestGivenUp(t *testing.T) {
	h := newHook(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n <= leastTries {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	n := notifierOf(t, state.Run{State: state.Succeeded}, spec.Notify{Webhook: h.URL + "/secret/path", On: []string{"moved", "ended"}})
	if _, err := n.Store.AddEvent(t.Context(), event.Event{Run: run, Time: time.Now().Add(-2 * limit), Fields: event.Moved{Site: "a"}}); err != nil {
		t.Fatal(err)
	}
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := n.Store.History().Events(t.Context(), run, event.KindNotificationFailed)
	if err != nil || len(events) != 1 {
		t.Fatalf("%v: %+v", err, events)
	}
	f, is := events[0].Fields.(event.NotificationFailed)
	if !is || f.Number != 1 || f.Event != "moved" || !strings.Contains(f.Cause.Message, "403") || strings.Contains(event.Key(f), "secret") {
		t.Errorf("got %+v", f)
	}
	if got := h.all(); len(got) != leastTries+1 || got[leastTries] != "ended aaaabbbb-2" {
		t.Errorf("got %q", got)
	}
}

// TestWebhook: the body is authenticated, and no redirect is followed.
func TestWebhook(t *testing.T) {
	other := newHook(t, nil)
	var signed []string
	h := newHook(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signed = []string{r.Header.Get("webhook-signature"), "v1," + signature("k3y", r.Header.Get("webhook-id")+"."+r.Header.Get("webhook-timestamp")+".", body)}
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusPermanentRedirect)
		case "/large":
			for range 1000 {
				io.WriteString(w, strings.Repeat("x", 10000))
			}
		}
	})
	if err := webhook(t.Context(), h.URL, "k3y", "id", "ended", []byte("{}")); err != nil || signed[0] != signed[1] || len(signed[0]) < 40 {
		t.Errorf("%v, signed %q", err, signed)
	}
	if a, b := signature("whsec_"+base64.StdEncoding.EncodeToString([]byte("k3y")), "x", nil), signature("k3y", "x", nil); a != b {
		t.Errorf("a key in base64 gives %q, not %q", a, b)
	}
	err := webhook(t.Context(), h.URL+"/other", "k3y", "id", "ended", []byte("{}"))
	if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(other.URL, "http://")) || len(other.all()) > 0 {
		t.Errorf("a redirect: %v, and the other host got %q", err, other.all())
	}
	if err := webhook(t.Context(), h.URL+"/large", "", "id", "ended", nil); err != nil || signed[0] != "" {
		t.Errorf("a large answer: %v; without a key %q", err, signed[0])
	}
	h.Close()
	if err := webhook(t.Context(), h.URL+"/secret", "", "id", "ended", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a server that is gone: %v", err)
	}
}

// TestCommand gets the run on its standard input, which it need not read.
func TestCommand(t *testing.T) {
	n := notifierOf(t, state.Run{State: state.Succeeded}, spec.Notify{Command: `echo "$BEE_EVENT $BEE_EVENT_ID $BEE_STATE $(cat)" >got`}, spec.Notify{Command: "true"})
	n.Body = func(context.Context, state.Run) ([]byte, error) { return []byte(strings.Repeat("x", 1<<20)), nil }
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(n.Receivers[0].Dir, "got"))
	if err != nil || !strings.HasPrefix(string(raw), "ended aaaabbbb-1 succeeded xxx") || len(raw) < 1<<20 {
		t.Errorf("%v: %.60s", err, raw)
	}
	err = command(t.Context(), "/", nil, nil, "/bin/sh", "-c", "printf 'not \\033[2Jthere'; yes | head -c 100000; exit 3")
	if err == nil || !strings.Contains(err.Error(), `exit status 3: not \x1b[2Jthere`) || len(err.Error()) > 2*maxAnswer {
		t.Errorf("got %v", err)
	}
}

// TestMail: the program gets one message to one receiver, and no text adds to its head.
func TestMail(t *testing.T) {
	dir := t.TempDir()
	if err := core.WriteProgram(filepath.Join(dir, "sendmail"), []byte("#!/bin/sh\necho \"$@\" >"+dir+"/args\ncat >"+dir+"/mail\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	n := notifierOf(t, state.Run{State: state.Failed}, spec.Notify{Mail: "ann@example.org"})
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil || string(args) != "-i -- ann@example.org\n" {
		t.Errorf("%v: %q", err, args)
	}
	text, err := os.ReadFile(filepath.Join(dir, "mail"))
	head, body, _ := strings.Cut(string(text), "\n\n")
	if err != nil || !strings.Contains(head, "Subject: bee: run pi (aaaabbbb): ended, failed\n") || !strings.Contains(body, "X-Evil: no\n") || !strings.Contains(body, "=C3=BCbel") || strings.Contains(string(text), "\r") {
		t.Errorf("%v:\n%s", err, text)
	}
	evil := string(message("", "ann@example.org", state.Run{ID: run, Name: "x\r\nBcc: eve@example.org\u202e"}, "id", notification{word: "ended"}, ""))
	if lines := strings.Count(evil, "\n"); strings.Contains(evil, "\nBcc") || strings.Contains(evil, "\r") || lines != 9 {
		t.Errorf("%d lines:\n%s", lines, evil)
	}
}

// TestWaiting: the event is there once for each time of waiting.
func TestWaiting(t *testing.T) {
	h := newHook(t, nil)
	n := notifierOf(t, state.Run{State: state.Queued, Created: time.Now().Add(-90 * time.Minute)}, spec.Notify{Webhook: h.URL, On: []string{"waiting>1h", "waiting>2h"}})
	for range 3 {
		if _, err := n.find(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	at := state.Attempt{Run: run, N: 1, Started: time.Now().Add(-80 * time.Minute), Ended: time.Now().Add(-70 * time.Minute), State: state.Closed, Record: state.Record{TaskBegan: true}}
	if err := n.Store.PutAttempt(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	f, err := n.find(t.Context())
	if err != nil || len(f.events) != 2 {
		t.Fatalf("%v: %+v", err, f.events)
	}
	if e, is := n.next(f.events, 0, 0); !is || e.word != "waiting" || e.Seq != 1 {
		t.Errorf("got %+v, %v", e, is)
	}
}

// TestARunThatIsSetAside waits for its user like one that is suspended.
func TestARunThatIsSetAside(t *testing.T) {
	e := event.Event{Run: run, Fields: event.SetAside{Cause: event.Cause{Message: "boom"}}}
	if got := wordOf(&Receiver{}, e); got != spec.NotifySuspended {
		t.Errorf("by default its word is %q", got)
	}
	if got := wordOf(&Receiver{Notify: spec.Notify{On: []string{spec.NotifyEnded}}}, e); got != "" {
		t.Errorf("who wants no such event gets %q", got)
	}
	n := notifierOf(t, state.Run{State: state.SetAside}, spec.Notify{Mail: "ann@example.org"})
	n.add(t, e.Fields)
	if is, err := n.Pending(t.Context()); err != nil || !is {
		t.Errorf("%v: nothing is to send", err)
	}
}

// TestARunThatWasRemoved leaves nothing.
func TestARunThatWasRemoved(t *testing.T) {
	n := notifierOf(t, state.Run{State: state.Running}, spec.Notify{Command: "true"})
	if err := n.Store.RemoveRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if pending, err := n.Pending(t.Context()); pending || err != nil || !Has(n.Store, run) {
		t.Errorf("one that may be about to be submitted: %v, %v", pending, err)
	}
	if err := n.Serve(t.Context()); err != nil || Has(n.Store, run) {
		t.Errorf("%v, its directory is there: %v", err, Has(n.Store, run))
	}
}

// TestALockThatCameAtTheEndIsReleased: else this process would keep others from sending.
func TestALockThatCameAtTheEndIsReleased(t *testing.T) {
	n := notifierOf(t, state.Run{State: state.Running})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Serve(ctx); err != nil {
		t.Fatal(err)
	}
	if free, err := Unattended(n.Store); err != nil || !slices.Equal(free, []string{run}) {
		t.Errorf("free are %q, %v; want %q", free, err, run)
	}
}

// TestDamagedProgress counts as none.
func TestDamagedProgress(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, progressName), []byte(`{"receivers":[{"done":"x`), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := readProgress(dir, 2); err != nil || len(p.Receivers) != 2 || p.Receivers[0].Done != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestOneNotificationForAnArray: it is sent when all cases are over, with the state in which the
// array ended, and does not depend on the order in which the ends of cases are found.
func TestOneNotificationForAnArray(t *testing.T) {
	var bodies []string
	h := newHook(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
	})
	n := notifierOf(t, state.Run{State: state.Succeeded, Case: state.Case{Array: "ccccdddd", Name: "model", Number: 1}}, spec.Notify{Webhook: h.URL, On: []string{"ended"}})
	second := state.Run{ID: "bbbbcccc", Name: "model.2", State: state.Suspended, Created: time.Now(), Submission: []byte("{}"), Case: state.Case{Array: "ccccdddd", Name: "model", Number: 2}}
	if err := n.Store.PutRun(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if err := n.Serve(t.Context()); err != nil || len(h.all()) > 0 || !Has(n.Store, run) {
		t.Fatalf("%v: the first case ends, and %q is sent", err, h.all())
	}
	for id, want := range map[string]string{second.ID: run, run: ""} {
		if got, err := OfArray(t.Context(), n.Store, id); err != nil || got != want {
			t.Errorf("%v: of %s: %q, not %q", err, id, got, want)
		}
	}
	second.State, second.Ended = state.Failed, time.Now()
	if err := n.Store.PutRun(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := h.all(), []string{"ended aaaabbbb-2"}; !slices.Equal(got, want) || !slices.Equal(bodies, []string{`{"state":"failed"}`}) {
		t.Errorf("got %q with %q, want %q", got, bodies, want)
	}
	if Has(n.Store, run) {
		t.Error("its directory is still there")
	}
}

// TestTheCasesOfPacksAreMeant by the notification of their array: a pack has succeeded also where
// cases have failed.
func TestTheCasesOfPacksAreMeant(t *testing.T) {
	var bodies []string
	h := newHook(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
	})
	pack := state.Run{State: state.Running, Case: state.Case{Array: "ccccdddd.packs", Name: "model.packs", Number: 1}}
	n := notifierOf(t, pack, spec.Notify{Webhook: h.URL, On: []string{"failed"}})
	three := 3
	packed := state.Run{ID: "bbbbcccc", Name: "model.1", State: state.Running, ExitCode: &three, Created: time.Now(), Submission: []byte("{}"), Case: state.Case{Array: "ccccdddd", Name: "model", Number: 1, Pack: run}}
	pack.ID, pack.Name, pack.Created, pack.Submission = run, "model.packs.1", time.Now(), []byte("{}")
	ended := pack
	ended.State, ended.Ended = state.Succeeded, time.Now()
	for _, r := range []state.Run{packed, ended} {
		if err := n.Store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(h.all()) != 1 || !slices.Equal(bodies, []string{`{"state":"failed"}`}) {
		t.Errorf("got %q with %q", h.all(), bodies)
	}
}
