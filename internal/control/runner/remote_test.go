package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// web is what fetches remote inputs and gets remote outputs in tests.
type web struct {
	fetched []string
	err     error
	objects map[string]string // by place and name
	fails   int               // how often nothing can be sent
	near    bool              // no site can fetch anything
}

func (w *web) Away(_ context.Context, in spec.Input, _ string) (driver.Download, error) {
	if w.near {
		return driver.Download{}, &core.Error{Kind: core.Unsupported, Err: errors.New("its server is on this machine")}
	}
	return driver.Download{URL: in.From + "?signed", Name: in.From, Tag: "tag"}, nil
}

func (w *web) Arrived(d driver.Download, got driver.Downloaded, _ string) error {
	if got.Tag != d.Tag {
		return &core.Error{Kind: core.Invalid, Err: errors.New("another version")}
	}
	return nil
}

func (w *web) Uploads(string) ([]string, error) { return nil, nil }

func (w *web) AbortUploads(context.Context, string) error { return nil }

func (w *web) Place(_ context.Context, place string, by outputs.Writer) (outputs.Place, error) {
	return &webPlace{w, place, by}, nil
}

type webPlace struct {
	*web
	place string
	by    outputs.Writer
}

func (w *webPlace) Send(_ context.Context, name string, file *os.File, replace bool) error {
	if w.fails > 0 {
		w.fails--
		return &core.Error{Kind: core.Transient, Err: errors.New("the bucket does not answer"), Remedy: "Wait."}
	}
	at := w.place + "/" + name
	if was, is := w.objects[at]; is && !replace && !strings.HasSuffix(was, " by "+w.by.Name) {
		return fmt.Errorf("%s: %w", at, fs.ErrExist)
	}
	raw, err := io.ReadAll(file)
	w.objects[at] = string(raw) + " by " + w.by.Name
	return err
}

func (w *web) Fetch(ctx context.Context, in spec.Input, to string, progress func(int64)) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	w.fetched = append(w.fetched, in.From)
	if w.err != nil {
		return w.err
	}
	progress(1)
	return os.WriteFile(to, []byte("of "+in.From), 0o600)
}

// TestRemoteInputsAreBrought once, to the place of a file of that name, and are gone once the
// run is over.
func TestRemoteInputsAreBrought(t *testing.T) {
	w, web := newWorld(t, "a", "b"), &web{}
	w.Remote = web
	w.sites["a"].AcquireError = &core.Error{Kind: core.Busy, Err: errors.New("no hosts are free")}
	const from = "https://example.org/era5/t2m.nc"
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{From: from, SHA256: "00", To: "/work/in/"}}})
	got := w.drive(t, run, nil)
	b := w.sites["b"]
	if got.State != state.Succeeded || len(web.fetched) != 1 || b.Staged.Remote != filepath.Join(b.Dir, "volume", "in", "t2m.nc") {
		t.Errorf("%s: %s; fetched were %q, and brought %+v", got.State, got.Message, web.fetched, b.Staged)
	}
	if _, err := os.Stat(filepath.Join(w.Store.RunDir(run.ID), "remote")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still here: %v", err)
	}
}

// TestRemoteInputsThatDoNotCome end the run before any hosts are asked for.
func TestRemoteInputsThatDoNotCome(t *testing.T) {
	w, web := newWorld(t, "a"), &web{err: &core.Error{Kind: core.Invalid, Err: errors.New("another digest")}}
	w.Remote = web
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{From: "s3://bucket/k", To: "/work/"}}})
	if got := w.drive(t, run, nil); got.State != state.Failed || got.Kind != core.Invalid.String() {
		t.Errorf("%s, %s: %s", got.State, got.Kind, got.Message)
	}
	if list := w.attempts(t, run); len(list) != 0 {
		t.Errorf("hosts were asked for: %+v", list)
	}
}

// TestOutputsToABucket are sent once they are here, beside what others have stored, and nothing
// of them stays here.
func TestOutputsToABucket(t *testing.T) {
	const place = "s3://bucket/results"
	w := newWorld(t, "a")
	by := " by " + w.Store.User() + "/j"
	web := &web{objects: map[string]string{place + "/res/old": "old" + by, place + "/res/mine": "mine"}}
	w.Remote = web
	w.ending(t, 0, map[string]string{"volume/res/old": "new", "volume/res/mine": "theirs", "volume/res/sub/.x": "x"}, protocol.OutputMatch{Path: "volume/res"})
	if err := os.Symlink("sub/.x", filepath.Join(w.sites["a"].Dir, "volume", "res", "link")); err != nil {
		t.Fatal(err)
	}
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/res", To: place}}})
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Fatalf("got %+v", got)
	}
	want := map[string]string{
		place + "/res/old": "new" + by, place + "/res/mine": "mine", place + "/res/mine." + run.ID: "theirs" + by, place + "/res/sub/.x": "x" + by, place + "/res/link": "x" + by,
	}
	if !same(web.objects, want) {
		t.Errorf("the bucket has %q, want %q", web.objects, want)
	}
	if _, err := os.Stat(filepath.Join(w.Store.RunDir(run.ID), "sending")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still here: %v", err)
	}
	w.arrived(t, run.ID, state.Arrived{To: place, Count: 1, Names: []string{"res"}})
	w.nothingHeld(t)
}

// TestABucketThatDoesNotAnswer keeps the site, which has the outputs, until they are stored.
func TestABucketThatDoesNotAnswer(t *testing.T) {
	w, web := newWorld(t, "a"), &web{objects: map[string]string{}, fails: 1}
	w.Remote = web
	w.ending(t, 0, map[string]string{"volume/res": "text"}, protocol.OutputMatch{Path: "volume/res"})
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/res", To: "s3://bucket"}}})
	if got, err := w.Drive(t.Context(), run.ID, nil); err == nil || !core.IsKind(err, core.Transient) || got.State.Final() || len(w.sites["a"].Held) != 1 {
		t.Fatalf("%s, %v; held are %v", got.State, err, w.sites["a"].Held)
	}
	w.ending(t, 0, nil, protocol.OutputMatch{Path: "volume/res"})
	if got := w.drive(t, run, nil); got.State != state.Succeeded || len(web.objects) != 1 {
		t.Errorf("%s: %s; the bucket has %q", got.State, got.Message, web.objects)
	}
	w.nothingHeld(t)
}

// TestRemoteInputsThatTheSiteFetches do not pass through this machine, unless the site cannot,
// or fetches something else.
func TestRemoteInputsThatTheSiteFetches(t *testing.T) {
	const from = "https://example.org/era5/t2m.nc"
	for name, c := range map[string]struct {
		download error
		tag      string
		near     bool
		broken   int
		relayed  bool
	}{
		"it does":                       {tag: "tag"},
		"its connection breaks":         {tag: "tag", broken: 2},
		"it reaches no server":          {download: driver.DownloadError{Err: &core.Error{Kind: core.Transient, Err: errors.New("no route to host")}}, relayed: true},
		"it fetches another version":    {tag: "other", relayed: true},
		"the server is on this machine": {near: true, relayed: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, web := newWorld(t, "a"), &web{near: c.near}
			w.Remote = web
			a, asked := w.sites["a"], []driver.Download{}
			a.Downloads = func(_ context.Context, d driver.Download) (driver.Downloaded, error) {
				if asked = append(asked, d); len(asked) <= c.broken {
					return driver.Downloaded{}, &core.Error{Kind: core.Lost, Err: errors.New("the connection broke")}
				}
				return driver.Downloaded{Tag: c.tag}, c.download
			}
			run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data"}, Inputs: []spec.Input{{From: from, To: "/data/in/"}}})
			if got := w.drive(t, run, nil); got.State != state.Succeeded {
				t.Fatalf(name+": %s: %s", got.State, got.Message)
			}
			at := filepath.Join(a.Dir, "volume", "in", "t2m.nc")
			if here := len(web.fetched) == 1 && a.Staged.Remote == at; here != c.relayed {
				t.Errorf(name+": fetched here were %q, and staged %+v", web.fetched, a.Staged)
			}
			if !c.near && (len(asked) != 1+c.broken || filepath.Join(asked[0].Dir, asked[0].Remote) != at || asked[0].URL != from+"?signed" || strings.HasPrefix(asked[0].Part, "volume")) {
				t.Errorf(name+": the site was asked for %+v", asked)
			}
			list := controltest.EventsOf(t, w.Store, run.ID, event.KindRemoteInput)
			if len(list) != 1 {
				t.Fatalf(name+": its history: %+v", list)
			}
			if f := list[0].Fields.(event.RemoteInput); f.Input != from || f.Site != "a" || (f.Cause != nil) != c.relayed {
				t.Errorf(name+": its history: %+v", f)
			}
			w.nothingHeld(t)
			w.Store.Close()
		})
	}
}
