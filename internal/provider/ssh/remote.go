package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// Agent is what `bee remote` needs on a host: the provider to speak for there
// and the image cache. The agent keeps no state; all of it lies in the files
// of that provider.
type Agent struct {
	// Provider gives the provider that a call's site (Settings.Site) means.
	Provider func(site json.RawMessage) (driver.Provider, error)
	// HasImage asks the image cache in a directory.
	HasImage func(cache, id string) bool
	// Runtime names the runtime that works on this host; see driver.RuntimeTrier.
	Runtime  func(ctx context.Context, name string) (string, error)
	meetings *meetings
	wide     *wire.Lanes // the connection
}

// The calls of an agent. Each names its site, so that the agent finds leases
// again that an earlier agent made.
const (
	callFacts    = "facts"
	callRuntime  = "runtime"
	callAcquire  = "acquire"
	callReady    = "ready"
	callForecast = "forecast"
	callList     = "list"
	callStatus   = "status"
	callAlive    = "alive"
	callLaunch   = "launch"
	callEntrust  = "entrust"
	callCommit   = "commit"
	callAttend   = "attend"
	callDial     = "dial"
	callStage    = "stage"
	callFetch    = "fetch"
	callYield    = "yield"
	callInherit  = "inherit"
	callRelease  = "release"
	callImage    = "image"
	callMark     = "mark" // makes a file, for others to see
	callSees     = "sees"
	callUnmark   = "unmark"
	// The calls about a store of checkpoints, of this host or one that it sees.
	callStore        = "store"
	callStoreKeep    = "store-keep"    // of a tree that comes over the stream
	callStoreRestore = "store-restore" // to whom the stream leads
	callMeet         = "meet"          // see driver.Meeter
	callLanes        = "lanes"         // of the connection, that others will bring
	callLane         = "lane"          // be one
)

type call struct {
	Site    json.RawMessage `json:"site"`
	Owner   core.Owner      `json:"owner"`
	Request driver.Request  `json:"request"`
	Handle  core.Handle     `json:"handle"`
	Host    int             `json:"host"`           // index in the agent's lease
	Path    string          `json:"path,omitempty"` // socket, log, or file
	From    string          `json:"from,omitempty"` // what is moved to Path
	Image   string          `json:"image,omitempty"`
	Runtime string          `json:"runtime,omitempty"`
	Config  []byte          `json:"config,omitempty"`
	// Store is what a store of checkpoints is asked for.
	Store json.RawMessage `json:"store,omitempty"`
	// Meeting is what this host shall take part in; Via names one whose connection
	// a tree goes over, in place of the call's stream.
	Meeting *driver.Meeting `json:"meeting,omitempty"`
	Via     string          `json:"via,omitempty"`
	// Lanes is how many are wanted, or which one this is; Key is of who takes them.
	Lanes int      `json:"lanes,omitempty"`
	Key   wire.Key `json:"key,omitempty"`
}

// granted is an agent's lease as it stands.
type granted struct {
	Handle   core.Handle    `json:"handle"`
	Hosts    []core.Host    `json:"hosts"`
	Deadline time.Time      `json:"deadline,omitzero"`
	Waiting  driver.Waiting `json:"waiting"`
	// Lost says why the site has dropped it; what it left may still be there.
	Lost string `json:"lost,omitempty"`
}

func grant(ctx context.Context, l driver.Lease) (granted, error) {
	g := granted{Waiting: driver.Waiting{Ready: true}}
	if q, ok := l.(driver.Queued); ok {
		var err error
		if g.Waiting, err = q.Ready(ctx); core.IsKind(err, core.Lost) {
			g.Lost = err.Error()
		} else if err != nil {
			return g, err
		}
	}
	g.Handle, g.Hosts, g.Deadline = l.Handle(), l.Hosts(), l.Deadline()
	return g, nil
}

type facts struct {
	driver.Facts
	Arch string `json:"arch"`
}

// Main is `bee remote`: it serves one controller over standard input and
// output, until that goes away.
func (a Agent) Main() int {
	widen(os.Stdin)
	widen(os.Stdout)
	fmt.Println("BEE " + here)
	a.wide = wire.NewLanes(stdio{}, false)
	peer, err := wire.NewPeer(a.wide, false, "the controller")
	if err != nil {
		fmt.Fprintf(os.Stderr, "bee remote: %v\n", err)
		return 1
	}
	a.meetings = &meetings{made: map[string]net.Conn{}}
	peer.Serve(context.Background(), a.handle) //nolint:errcheck // its end is ours
	return 0
}

type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

func (a Agent) handle(ctx context.Context, method string, s *wire.Stream) error {
	var c call
	if err := s.Params(&c); err != nil {
		return err
	}
	switch method {
	case callLanes:
		return a.offerLanes(ctx, c.Lanes, s)
	case callLane:
		return beLane(ctx, c, s)
	}
	if c.Meeting != nil {
		return a.meetings.hold(ctx, *c.Meeting, s)
	}
	w, err := a.meetings.way(s, c.Via)
	if err != nil {
		return err
	}
	if len(c.Store) > 0 {
		return serveStore(ctx, method, c.Store, w)
	}
	p, err := a.Provider(c.Site)
	if err != nil {
		return err
	}
	switch method {
	case callFacts:
		f, err := p.Probe(ctx)
		if err != nil {
			return err
		}
		return s.Reply(facts{f, runtime.GOARCH})
	case callRuntime:
		name, err := a.Runtime(ctx, c.Runtime)
		if err != nil {
			return err
		}
		return s.Reply(name)
	case callAcquire:
		if c.Request.Binary, err = os.Executable(); err != nil {
			return err
		}
		// Others may use the connection: that who asked has gone shows in the call.
		ctx, end := s.Broken(ctx)
		defer end()
		l, err := p.Acquire(ctx, c.Request)
		if err != nil {
			return err
		}
		return s.Reply(granted{Handle: l.Handle(), Hosts: l.Hosts(), Deadline: l.Deadline()})
	case callForecast:
		w := driver.Waiting{Expected: time.Now()}
		if fc, ok := p.(driver.Forecaster); ok {
			if w, err = fc.Forecast(ctx, c.Request); err != nil {
				return err
			}
		}
		return s.Reply(w)
	case callList:
		handles, err := p.List(ctx, c.Owner)
		if err != nil {
			return err
		}
		return s.Reply(handles)
	}
	l, err := p.Recover(ctx, c.Handle)
	if err != nil {
		if method == callRelease && core.IsKind(err, core.NotFound) {
			return s.Reply(nil)
		}
		return err
	}
	return a.onLease(ctx, method, c, l, w)
}

func (a Agent) onLease(ctx context.Context, method string, c call, l driver.Lease, w *way) error {
	s := w.call
	switch method {
	case callReady:
		g, err := grant(ctx, l)
		if err != nil {
			return err
		}
		return s.Reply(g)
	case callImage:
		return s.Reply(c.Host < len(l.Hosts()) && a.HasImage(l.Hosts()[c.Host].Cache, c.Image))
	case callStatus:
		st, err := l.Status(ctx)
		if err != nil {
			return err
		}
		return s.Reply(st)
	case callMark:
		if err := os.WriteFile(c.Path, nil, 0o600); err != nil {
			return err
		}
		return s.Reply(nil)
	case callUnmark:
		if err := os.Remove(c.Path); err != nil {
			return err
		}
		return s.Reply(nil)
	case callSees: // and can it write there?
		return s.Reply(unix.Access(c.Path, unix.W_OK) == nil)
	case callAlive:
		alive := true
		if checker, ok := l.(driver.NodeChecker); ok {
			var err error
			if alive, err = checker.NodeAlive(ctx, c.Host); err != nil {
				return err
			}
		}
		return s.Reply(alive)
	case callLaunch:
		if err := l.Launch(ctx, driver.NodeCommand{Host: c.Host, Config: c.Config, Log: c.Path}); err != nil {
			return err
		}
		return s.Reply(nil)
	case callEntrust, callCommit, callAttend:
		u, ok := l.(driver.Unattended)
		if !ok {
			return errAttended
		}
		do := u.Commit
		switch method {
		case callEntrust:
			do = func(ctx context.Context) error { return u.Entrust(ctx, c.Config) }
		case callAttend:
			do = u.Attend
		}
		if err := do(ctx); err != nil {
			return err
		}
		return s.Reply(nil)
	case callDial:
		conn, err := l.Dial(ctx, c.Host, c.Path)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := s.Reply(nil); err != nil {
			return err
		}
		return wire.Splice(s, conn)
	case callStage:
		basis := basisOf(ctx, c.Path)
		if err := s.Reply(nil); err != nil {
			return err
		}
		if err := w.receive(ctx, c.Path, basis); err != nil {
			return wire.WriteMessage(s, failed(err))
		}
		return wire.WriteMessage(s, outcome{})
	case callFetch:
		if _, err := os.Lstat(c.Path); err != nil {
			return &core.Error{Kind: core.NotFound, Op: "fetch", Object: c.Path, Err: err}
		}
		if err := s.Reply(nil); err != nil {
			return err
		}
		return w.send(ctx, c.Path)
	case callYield:
		y, ok := l.(driver.Yielder)
		if !ok {
			return &core.Error{Kind: core.Unsupported, Op: "give back the hosts of", Object: c.Owner.String(), Err: errors.New("this site keeps nothing without them")}
		}
		if err := y.Yield(ctx); err != nil {
			return err
		}
		return s.Reply(granted{Handle: l.Handle(), Hosts: l.Hosts()})
	case callInherit:
		heir, ok := l.(driver.Heir)
		if !ok {
			return &core.Error{Kind: core.Unsupported, Op: "take over", Object: c.From, Err: errors.New("this site cannot")}
		}
		if err := heir.Inherit(ctx, c.From, c.Path); err != nil {
			return err
		}
		return s.Reply(nil)
	case callRelease:
		if err := l.Release(ctx); err != nil {
			return err
		}
		return s.Reply(nil)
	}
	return &core.Error{Kind: core.Unsupported, Op: "answer call", Object: method, Err: errors.New("this agent does not know it")}
}

// basisOf is what there is of a file already; where that cannot be found out,
// nothing: then all of it travels.
func basisOf(ctx context.Context, path string, others ...string) *filestream.Basis {
	basis, err := filestream.NewBasis(ctx, path, others...)
	if err != nil {
		return nil
	}
	return basis
}

// outcome is how a staging ended on the host.
type outcome struct {
	Kind   string `json:"kind,omitempty"`
	Error  string `json:"error,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func failed(err error) outcome {
	return outcome{core.KindOf(err).String(), err.Error(), core.Remedy(err)}
}
