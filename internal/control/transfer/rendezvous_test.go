package transfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/wire"
)

// fakeConnector is an agent in this process, whose listeners are real.
type fakeConnector struct {
	name   string
	hidden bool  // no way leads to it
	fails  error // what it answers
	asked  int
}

func (f *fakeConnector) Machine() string { return f.name }

func (f *fakeConnector) Rendezvous(ctx context.Context, m driver.RendezvousSpec) (driver.End, error) {
	f.asked++
	if f.fails != nil {
		return nil, f.fails
	}
	id, err := wire.NewIdentity(m.CA, m.Cert, m.Key)
	if err != nil {
		return nil, err
	}
	e := &fakeEnd{met: make(chan net.Conn, 1), stop: func() {}}
	ctx, cancel := context.WithTimeout(ctx, m.Limit)
	if len(m.Addrs) > 0 {
		go func() {
			defer cancel()
			c, err := wire.Reach(ctx, id, m.Addrs)
			e.err = err
			e.met <- c
		}()
		return e, nil
	}
	listenSide, err := wire.ListenForPeer(id)
	if err != nil {
		cancel()
		return nil, err
	}
	_, port, err := net.SplitHostPort(listenSide.Addrs()[0])
	if f.hidden {
		port = "1"
	}
	e.addrs, e.stop = []string{"127.0.0.1:" + port}, cancel
	go func() {
		c, err := listenSide.Admit(ctx)
		e.err = err
		e.met <- c
	}()
	return e, err
}

type fakeEnd struct {
	addrs []string
	met   chan net.Conn
	err   error // once met is
	stop  func()
}

func (e *fakeEnd) Addrs() []string { return e.addrs }

func (e *fakeEnd) Met() (string, error) {
	c := <-e.met
	if e.err != nil {
		return "", &core.Error{Kind: core.Unsupported, Err: e.err}
	}
	defer c.Close()
	return c.RemoteAddr().String(), nil
}

func (e *fakeEnd) Close() error { e.stop(); return nil }

// fakeStore notes which way trees take to it.
type fakeStore struct {
	driver.Checkpoints
	ways  []string
	fails []error // one for each tree that goes direct
}

func (s *fakeStore) Keep(_ context.Context, _ driver.Generation, _ string, from driver.Source) (driver.Manifest, bool, error) {
	if from.Direct() == nil {
		s.ways = append(s.ways, "here")
		return driver.Manifest{}, true, nil
	}
	s.ways = append(s.ways, "direct")
	var err error
	if len(s.fails) > 0 {
		err, s.fails = s.fails[0], s.fails[1:]
	}
	return driver.Manifest{}, err == nil, err
}

func (s *fakeStore) Restore(_ context.Context, _ driver.Checkpoint, to driver.Sink) error {
	_, _, err := s.Keep(context.Background(), driver.Generation{}, "", to.(Tree))
	return err
}

// newSite returns a site whose routes are added to a list, each change of one once.
func newSite(name string, routes *[]event.Route) *Site {
	return &Site{
		Name: name, Routes: &Routes{}, Breaks: &Breaks{},
		Progress: func(core.Phase, string, int64) func(int64) { return func(int64) {} },
		Record:   func(context.Context, event.Fields) {},
		RecordRoute: func(_ context.Context, r event.Route) {
			for _, last := range slices.Backward(*routes) {
				if last.From == r.From && last.To == r.To {
					if last.Direct == r.Direct {
						return
					}
					break
				}
			}
			*routes = append(*routes, r)
		},
	}
}

func TestTreesGoDirectlyWhereHostsReachEachOther(t *testing.T) {
	lost := &core.Error{Kind: core.Lost, Err: errors.New("connection reset")}
	for _, c := range []struct {
		name        string
		site, place fakeConnector
		fails       []error // of what goes direct
		ways        string  // of a checkpoint that is kept three times, and brought
		says        []string
		asked       int // of the site
	}{
		{
			name: "the receiver listens", ways: "direct direct direct direct", asked: 4,
			says: []string{"direct a> 127.0.0.1:", "direct >a 127.0.0.1:"},
		},
		{
			name: "or the sender, which is remembered", place: fakeConnector{hidden: true}, ways: "direct direct direct direct", asked: 5,
			says: []string{"direct a> 127.0.0.1:", "direct >a 127.0.0.1:"},
		},
		{
			name: "neither, which is remembered", site: fakeConnector{hidden: true}, place: fakeConnector{hidden: true}, ways: "here here here here", asked: 2,
			says: []string{"relayed a> ", "relayed >a "},
		},
		{
			name: "an agent that does not know how", site: fakeConnector{fails: &core.Error{Kind: core.Permanent, Err: errors.New("unexpected end")}}, ways: "here here here here", asked: 2,
			says: []string{"relayed a> ", "relayed >a "},
		},
		{name: "an agent that does not answer now", site: fakeConnector{fails: &core.Error{Kind: core.Transient, Err: errors.New("no line")}}, ways: "here here here here", asked: 4},
		{
			name: "a way that breaks once", fails: []error{lost}, ways: "direct here direct direct direct", asked: 4,
			says: []string{"direct a>", "relayed a> ", "direct a>", "direct >a"},
		},
		{
			name: "a way that breaks again and again", fails: []error{lost, lost}, ways: "direct here direct here here here", asked: 2,
			says: []string{"direct a>", "relayed a> ", "direct a>", "relayed a> ", "relayed >a "},
		},
		{
			name: "a store that fails", fails: []error{&core.Error{Kind: core.Unsupported, Err: errors.New("it is full")}}, ways: "direct direct direct direct", asked: 4,
			says: []string{"direct a>", "direct >a"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var routes []event.Route
			end := newSite("a", &routes)
			c.site.name, c.place.name = "h0", "h1"
			store := &fakeStore{fails: c.fails}
			s := directStore{store, end, &c.site, &c.place}
			for i := range 3 {
				s.s = newSite("a", &routes) // as each controller of a run has it
				s.s.Routes = end.Routes
				_, made, err := s.Keep(t.Context(), driver.Generation{Attempt: i}, "a", Tree{Site: end})
				if full := strings.Contains(c.name, "fails") && i == 0; made == full || (err == nil) == full {
					t.Errorf("kept: %v, %v", made, err)
				}
			}
			if err := s.Restore(t.Context(), driver.Checkpoint{}, Tree{Site: end}); err != nil {
				t.Error(err)
			}
			if got := strings.Join(store.ways, " "); got != c.ways {
				t.Errorf("went %s, want %s", got, c.ways)
			}
			if c.site.asked != c.asked {
				t.Errorf("the site's agent was asked %d times, want %d", c.site.asked, c.asked)
			}
			list := routes
			if len(list) != len(c.says) {
				t.Fatalf("the history says %+v; want %q", list, c.says)
			}
			for i, e := range list {
				if said := routeText(e); !strings.HasPrefix(said, c.says[i]) {
					t.Errorf("the history says %q, want %q…", said, c.says[i])
				} else if !e.Direct {
					testkit.Wording(t, fmt.Sprint("route ", i+1), e.Cause.Message)
				}
			}
		})
	}
}

// routeText is the event of a route in short: how, from where to where, and by which address
// or why not.
func routeText(r event.Route) string {
	if r.Direct {
		return fmt.Sprintf("direct %s>%s %s", r.From, r.To, r.Address)
	}
	return fmt.Sprintf("relayed %s>%s %s", r.From, r.To, r.Cause.Message)
}

// TestAStopEndsARendezvous: nobody is waited for once the context has ended.
func TestAStopEndsARendezvous(t *testing.T) {
	var known Routes
	ctx, cancel := context.WithCancel(t.Context())
	silent := &silentConnector{began: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := known.open(ctx, Route{silent, &fakeConnector{name: "h1"}, "", ""})
		ended <- err
	}()
	<-silent.began
	cancel()
	select {
	case err := <-ended:
		if !core.Interrupted(err) {
			t.Errorf("got %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
	if known.pairs[[2]string{"h1", "silent"}].closed != nil {
		t.Error("the two are taken for out of reach")
	}
}

type silentConnector struct{ began chan struct{} }

func (s *silentConnector) Machine() string { return "silent" }
func (s *silentConnector) Rendezvous(ctx context.Context, _ driver.RendezvousSpec) (driver.End, error) {
	close(s.began)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}
