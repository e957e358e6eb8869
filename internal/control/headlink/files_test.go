package headlink

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestFetchFile: a site that sends more than it may, or something else than a file, leaves
// nothing here.
func TestFetchFile(t *testing.T) {
	const limit = 100
	missing := &core.Error{Kind: core.NotFound, Err: errors.New("no such file")}
	text := func(n int) func(context.Context, driver.Transfer) error {
		return func(_ context.Context, t driver.Transfer) error {
			return os.WriteFile(t.Local, []byte(strings.Repeat("x", n)), 0o600)
		}
	}
	for name, c := range map[string]struct {
		fetch func(context.Context, driver.Transfer) error
		limit int64
		lies  bool
		is    error
		left  bool // something is at the name afterwards
	}{
		"a file":            {fetch: text(limit), limit: limit, left: true},
		"one of any size":   {fetch: text(limit * 10), left: true},
		"an empty one":      {fetch: text(0), limit: limit, left: true},
		"one byte too much": {fetch: text(limit + 1), limit: limit, lies: true},
		"a directory": {fetch: func(_ context.Context, t driver.Transfer) error {
			return os.MkdirAll(filepath.Join(t.Local, "x"), 0o700)
		}, limit: limit, lies: true},
		"a link out":             {fetch: func(_ context.Context, t driver.Transfer) error { return os.Symlink("/etc/passwd", t.Local) }, limit: limit, lies: true},
		"a link to nothing":      {fetch: func(_ context.Context, t driver.Transfer) error { return os.Symlink("none", t.Local) }, lies: true},
		"nothing":                {fetch: func(context.Context, driver.Transfer) error { return missing }, limit: limit, is: missing},
		"nothing, as if it were": {fetch: func(context.Context, driver.Transfer) error { return nil }, limit: limit, is: fs.ErrNotExist},
		"bytes without end": {fetch: func(ctx context.Context, t driver.Transfer) error {
			for done := int64(1); ctx.Err() == nil; done *= 2 {
				t.Progress(done)
			}
			return context.Cause(ctx)
		}, limit: limit, lies: true},
	} {
		t.Run(name, func(t *testing.T) {
			local := filepath.Join(t.TempDir(), "f")
			err := FetchFile(t.Context(), &fakeLease{fetch: c.fetch}, driver.Transfer{Remote: "/there/f", Local: local}, c.limit)
			if lied := errors.As(err, new(InvalidReport)); lied != c.lies || c.is != nil && !errors.Is(err, c.is) || !c.lies && c.is == nil && err != nil {
				t.Errorf("got %v", err)
			}
			if _, err := os.Lstat(local); (err == nil) != c.left {
				t.Errorf("left: %v", err)
			}
		})
	}
}

// TestAFetchThatIsStopped is no lie of the site.
func TestAFetchThatIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := &fakeLease{fetch: func(ctx context.Context, _ driver.Transfer) error {
		cancel()
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	if err := FetchFile(ctx, l, driver.Transfer{Remote: "/there/f", Local: filepath.Join(t.TempDir(), "f")}, 10); !errors.Is(err, context.Canceled) || errors.As(err, new(InvalidReport)) {
		t.Errorf("got %v", err)
	}
}

// TestResult reads what a head has left, and believes no lie.
func TestResult(t *testing.T) {
	good := protocol.Result{Exit: &core.Exit{Code: 3}, Started: ended(), Ended: ended(), Outputs: []protocol.OutputMatch{}}
	for name, c := range map[string]struct {
		text string
		kind core.Kind // of the error; 0: it is believed
		lies bool
	}{
		"a result":              {text: inJSON(t, good)},
		"none":                  {kind: core.NotFound},
		"no JSON":               {text: `{"exit`, kind: core.Invalid},
		"two of them":           {text: inJSON(t, good) + inJSON(t, good), kind: core.Invalid},
		"an exit code of 1000":  {text: `{"exit":{"code":1000}}`, kind: core.Lost, lies: true},
		"an unasked checkpoint": {text: `{"continue":true}`, kind: core.Lost, lies: true},
		"a kind that is none":   {text: `{"kind":"odd"}`, kind: core.Lost, lies: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := filesOf(t, &fakeLease{}, protocol.Asked{Nodes: 1})
			if c.text != "" {
				leave(t, protocol.ResultPath(f.Lease.Hosts()[0].Dir), c.text)
			}
			r, err := f.Result(t.Context())
			if c.kind == 0 {
				if err != nil || r.Exit == nil || r.Exit.Code != 3 {
					t.Errorf("got %+v, %v", r, err)
				}
				return
			}
			if err == nil || c.kind != core.Invalid && core.KindOf(err) != c.kind || errors.As(err, new(InvalidReport)) != c.lies {
				t.Errorf("got %v of kind %v", err, core.KindOf(err))
			}
		})
	}
}

// TestAResultThatIsNoFile is a lie, as one that is too large is.
func TestAResultThatIsNoFile(t *testing.T) {
	f := filesOf(t, &fakeLease{fetch: func(_ context.Context, t driver.Transfer) error { return os.Symlink("/etc/passwd", t.Local) }}, protocol.Asked{Nodes: 1})
	if r, err := f.Result(t.Context()); r != nil || !errors.As(err, new(InvalidReport)) || !core.IsKind(err, core.Lost) {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestJournal skips what is torn or false, and stops where it is enough.
func TestJournal(t *testing.T) {
	line := func(seq int64, rank int) string {
		return inJSON(t, protocol.Event{Seq: seq, Time: ended(), Phase: core.PhaseRun, Rank: rank}) + "\n"
	}
	for name, c := range map[string]struct {
		text   string
		enough int64
		want   []int64
	}{
		"events":                   {line(1, 0) + line(2, 0), 0, []int64{1, 2}},
		"nothing":                  {"", 0, nil},
		"a last line that is torn": {line(1, 0) + `{"seq":2,"ti`, 0, []int64{1}},
		"garbage between":          {line(1, 0) + "\x00\xff\n{}\n[]\n" + line(2, 0), 0, []int64{1, 2}},
		"one of another node":      {line(1, 0) + line(2, 9) + line(3, 0), 0, []int64{1, 3}},
		"one that goes back":       {line(5, 0) + line(2, 0) + line(6, 0), 0, []int64{5, 6}},
		"enough":                   {line(1, 0) + line(2, 0) + line(3, 0), 2, []int64{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			f := filesOf(t, &fakeLease{}, protocol.Asked{Nodes: 2})
			leave(t, protocol.EventsPath(f.Lease.Hosts()[0].Dir), c.text)
			var got []int64
			err := f.Journal(t.Context(), func(e protocol.Event) bool { got = append(got, e.Seq); return e.Seq == c.enough })
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v, expected %v", got, err, c.want)
			}
		})
	}
}

// TestWithNodeError: what a lost head has left is the reason, and another site is tried only
// where the head says so in a way that sites may.
func TestWithNodeError(t *testing.T) {
	gone := &core.Error{Kind: core.Lost, Err: errors.New("it has ended")}
	failed := &core.Error{Kind: core.Permanent, Err: errors.New("the job has failed")}
	left := func(kind core.Kind, message, remedy string) string {
		return inJSON(t, rpc.Failure{Kind: kind.String(), Message: message, Remedy: remedy})
	}
	cases := map[string]struct {
		cause     error
		file, log string
		kind      core.Kind
	}{
		"its error":              {gone, left(core.Unsupported, "no KVM", "Load kvm."), "a log", core.Unsupported},
		"one that no site mends": {gone, left(core.Permanent, "no", ""), "", core.Lost},
		"escapes of a terminal":  {gone, left(core.Lost, "\x1b[2J", ""), "", core.Lost},
		"the end of its log":     {gone, "{}", "first\npanic: x\n\n", core.Lost},
		"no JSON":                {gone, "{", "", core.Lost},
		"too large":              {gone, left(core.Unsupported, strings.Repeat("x", MaxNodeError), ""), "", core.Lost},
		"more than a line":       {gone, left(core.Unsupported, "listen: kind=lost err=x\nno", `Take "eth0".`), "", core.Unsupported},
		"nothing":                {gone, "", "", core.Lost},
		"a failure of the job":   {failed, left(core.Unsupported, "no KVM", ""), "a log", core.Permanent},
	}
	var all testkit.ErrorList
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			f := filesOf(t, &fakeLease{}, protocol.Asked{Nodes: 1})
			dir := f.Lease.Hosts()[0].Dir
			if c.file != "" {
				leave(t, protocol.NodeErrorPath(dir, 0), c.file)
			}
			if c.log != "" {
				leave(t, protocol.NodeLogPath(dir, 0), c.log)
			}
			err := f.WithNodeError(t.Context(), c.cause)
			if core.KindOf(err) != c.kind || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("got %v of kind %v, remedy %q", err, core.KindOf(err), core.Remedy(err))
			}
			if raw, err := os.ReadFile(NodeLog(f.Dir, 1, 0)); string(raw) != c.log {
				t.Errorf("the log here is %q, %v", raw, err)
			}
			all.Add(name, err)
		})
	}
	all.Compare(t, "node-error")
}

// TestANodeThatEndsSlowly is waited for, as it writes why when it ends; one that does not end
// is not.
func TestANodeThatEndsSlowly(t *testing.T) {
	for name, c := range map[string]struct{ ends, least, most time.Duration }{
		"soon":       {300 * time.Millisecond, 300 * time.Millisecond, time.Second},
		"not at all": {time.Hour, nodeEndTime, nodeEndTime + time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			f := filesOf(t, &fakeLease{alive: func() (bool, error) { return time.Since(begun) < c.ends, nil }}, protocol.Asked{Nodes: 1})
			f.WithNodeError(t.Context(), &core.Error{Kind: core.Lost, Err: errors.New("gone")}) //nolint:errcheck // its time is looked at
			if took := time.Since(begun); took < c.least || took > c.most {
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
}

// TestLogsOfHostsThatAreSilent are not waited for, and those of others come.
func TestLogsOfHostsThatAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeLease{hosts: 20, fetch: func(ctx context.Context, tr driver.Transfer) error {
			if tr.Host%2 == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return os.WriteFile(tr.Local, []byte("log"), 0o600)
		}}
		f := filesOf(t, l, protocol.Asked{Nodes: 40})
		f.NodesPerHost = 2
		begun := time.Now()
		f.Logs(t.Context())
		if took := time.Since(begun); took > logTimeout {
			t.Errorf("it took %v", took)
		}
		for host := range l.hosts {
			if _, err := os.Lstat(NodeLog(f.Dir, 1, 2*host)); (err == nil) != (host%2 == 0) {
				t.Errorf("the log of host %d: %v", host, err)
			}
		}
	})
}
