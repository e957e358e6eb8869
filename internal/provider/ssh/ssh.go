// Package ssh is the provider for machines that the user reaches by ssh. On each host the
// agent has the provider of a single machine. A provider of clusters works on a login node
// likewise: there the agent has that one, with all the hosts of its leases (NewLogin).
package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// Settings of a site of this provider.
type Settings struct {
	Name string
	// Hosts as ssh understands them: names, aliases, user@host.
	Hosts []string
	// Site reports to the agent on a host which provider it shall be,
	// in words that only the maker of both understands.
	Site func(host string) json.RawMessage
	// Options are given to ssh as -o KEY=VALUE.
	Options map[string]string
	// BinaryFor gives the bee binary for an architecture (GOARCH).
	BinaryFor func(arch string) (string, error)
	// Logins, if not nil, has the connections to login nodes that others of this
	// process have too.
	Logins *sshlink.Logins
	// Client is the ssh program; default "ssh".
	Client string
	// Progress, if not nil, is given how many bytes of the binary have gone to a host
	// that has none yet, of how many. It must not block.
	Progress func(what string, done, total int64)
}

type provider struct {
	s   Settings
	ssh *sshlink.Client
	// info, if set, is that of the provider behind the only host, a login node.
	info *driver.Info
}

// atOnce bounds how many hosts are spoken to at a time.
const atOnce = 32

// link returns the settings of links to hosts that compute, which others have no use for.
func (s Settings) link() sshlink.Settings {
	return sshlink.Settings{Program: s.Client, Options: s.Options, BinaryFor: s.BinaryFor, Progress: s.Progress}
}

// New returns the provider of a site.
func New(s Settings) (driver.Provider, error) {
	if len(s.Hosts) == 0 {
		return nil, &core.Error{Kind: core.Invalid, Op: "site", Object: s.Name, Err: errors.New("it has no hosts"), Remedy: "Add `hosts:` to the site."}
	}
	return &provider{s: s, ssh: sshlink.New(s.link())}, nil
}

// NewLogin gives a provider that works on the one host of the settings, a
// login node, where the agent's provider is what inside says.
func NewLogin(s Settings, inside driver.Info) (driver.Provider, error) {
	if len(s.Hosts) != 1 {
		return nil, &core.Error{Kind: core.Invalid, Op: "site", Object: s.Name, Err: fmt.Errorf("it has %d login nodes, not one", len(s.Hosts)), Remedy: "Name one of them."}
	}
	p, err := New(s)
	if err != nil {
		return nil, err
	}
	inside.Summary += " behind " + sshlink.NameOf(s.Hosts[0])
	shared := s.link()
	shared.Logins = s.Logins
	login := p.(*provider)
	login.ssh, login.info = sshlink.New(shared), &inside
	return login, nil
}

// Info implements driver.Provider.
func (p *provider) Info() driver.Info {
	if p.info != nil {
		info := *p.info
		info.Downloads = true
		return info
	}
	summary := "1 host by ssh"
	if n := len(p.s.Hosts); n > 1 {
		summary = fmt.Sprintf("%d hosts by ssh", n)
	}
	return driver.Info{Name: "ssh", Summary: summary, Downloads: true}
}

// call is the base of all calls to a host.
func (p *provider) call(host string) hostcall.Call { return hostcall.Call{Site: p.s.Site(host)} }

// Probe asks the first host; the others are asked when they are wanted.
func (p *provider) Probe(ctx context.Context) (driver.Facts, error) {
	l, err := p.ssh.Connect(ctx, p.s.Hosts[0])
	if err != nil {
		return driver.Facts{Reason: err.Error(), Remedy: core.Remedy(err), Passing: core.IsKind(err, core.Transient)}, nil
	}
	defer p.ssh.Keep(l)
	f, err := rpc.Call(ctx, l.Peer, hostcall.CallFacts, p.call(p.s.Hosts[0]))
	if err != nil {
		return driver.Facts{}, err
	}
	if p.info == nil {
		f.Facts.Hosts = len(p.s.Hosts)
	}
	return f.Facts, nil
}

// Echo implements driver.Provider on the first host.
func (p *provider) Echo(ctx context.Context, data []byte) ([]byte, error) {
	l, err := p.ssh.Connect(ctx, p.s.Hosts[0])
	if err != nil {
		return nil, err
	}
	defer p.ssh.Keep(l)
	c := p.call(p.s.Hosts[0])
	c.Config = data
	got, err := rpc.Call(ctx, l.Peer, hostcall.CallEcho, c)
	return got, sshlink.Transient(err)
}

// TryRuntime implements driver.Provider on the first host; behind a login node
// there are no hosts before they are asked for.
func (p *provider) TryRuntime(ctx context.Context, name string) (works, host string, err error) {
	if p.info != nil {
		return "", "", nil
	}
	l, err := p.ssh.Connect(ctx, p.s.Hosts[0])
	if err != nil {
		return "", "", err
	}
	defer l.Close()
	c := p.call(p.s.Hosts[0])
	c.Runtime = name
	found, err := rpc.Call(ctx, l.Peer, hostcall.CallRuntime, c)
	return string(found), sshlink.NameOf(p.s.Hosts[0]), sshlink.Transient(err)
}

// Directories implements driver.Provider on the first host. Hosts that are granted later
// find them for themselves.
func (p *provider) Directories(ctx context.Context, wanted []driver.Directory) ([]string, error) {
	l, err := p.ssh.Connect(ctx, p.s.Hosts[0])
	if err != nil {
		return nil, err
	}
	defer p.ssh.Keep(l)
	c := p.call(p.s.Hosts[0])
	c.Directories = wanted
	found, err := rpc.Call(ctx, l.Peer, hostcall.CallDirs, c)
	if err != nil {
		return nil, sshlink.Transient(err)
	}
	if len(found) != len(wanted) {
		return nil, &core.Error{Kind: core.Lost, Op: "check", Object: "directories of " + sshlink.NameOf(p.s.Hosts[0]), Err: fmt.Errorf("their number is %d, expected %d", len(found), len(wanted)), Remedy: core.RemedyVersions}
	}
	return found, nil
}

// Queue implements driver.Provider: hosts of a rack are there at once, unless other runs use
// them.
func (p *provider) Queue() driver.SiteQueue { return p }

// Foreign implements driver.Provider.
func (p *provider) Foreign() driver.ForeignLeases { return foreignLeases{p} }

// HostLocks implements driver.Provider.
func (p *provider) HostLocks() driver.HostLocks { return hostLocks{p} }

// Inventory implements driver.Provider: nothing is rented.
func (p *provider) Inventory() driver.Inventory { return nil }

// Forecast implements driver.SiteQueue.
func (p *provider) Forecast(ctx context.Context, r driver.Request) (w driver.Waiting, err error) {
	if p.info == nil {
		return p.forecast(ctx, r)
	}
	w, err = p.forecastOf(ctx, p.s.Hosts[0], r)
	return w, sshlink.Transient(err)
}

// handle is what a lease keeps in its handle.
type handle struct {
	Hosts  []string      `json:"hosts"` // as ssh understands them
	Leases []core.Handle `json:"leases"`
	Known  []core.Host   `json:"known,omitempty"` // not behind a login node, where they are asked for
	// Nodes is how many hosts were asked for behind a login node; 0: not known.
	Nodes int `json:"nodes,omitempty"`
}

const handleVersion = 1

// Moved returns the handle of a lease whose hosts are reached by other names now, in the same order.
func Moved(h core.Handle, hosts []string) (core.Handle, error) {
	var own handle
	if err := json.Unmarshal(h.Data, &own); err != nil {
		return h, err
	}
	if len(hosts) != len(own.Hosts) {
		return h, &core.Error{Kind: core.Invalid, Op: "recover lease", Object: h.Owner.String(), Err: fmt.Errorf("it has %d hosts, expected %d", len(own.Hosts), len(hosts)), Remedy: "Restore `hosts:` of the site as they were, or remove what is left by `bee sweep`."}
	}
	own.Hosts = hosts
	data, err := json.Marshal(own)
	h.Data = data
	return h, err
}

// Acquire implements driver.Provider: the first hosts that answer are taken.
func (p *provider) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if r.Nodes < 1 {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: p.s.Name, Err: fmt.Errorf("%d nodes cannot be had", r.Nodes), Remedy: "Correct `nodes:`."}
	}
	if p.info != nil {
		return p.acquireBehind(ctx, r)
	}
	if r.Nodes > len(p.s.Hosts) {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "use site", Object: p.s.Name,
			Err: fmt.Errorf("the job wants %d nodes, the site has %d hosts", r.Nodes, len(p.s.Hosts)), Remedy: "Lower `nodes:`, or add hosts to the site.",
		}
	}
	got := make([]*sshlink.Link, len(p.s.Hosts))
	errs := make([]error, len(p.s.Hosts))
	p.each(len(p.s.Hosts), func(i int) { got[i], errs[i] = p.ssh.Again(ctx, p.s.Hosts[i]) })
	l, err := p.take(ctx, r, got, errs)
	fail := func(err error) (driver.Lease, error) {
		core.BestEffort(l.Release(context.WithoutCancel(ctx))) // the first error says it; a sweep finds the rest
		return nil, err
	}
	if err != nil {
		return fail(err)
	}
	l.hosts = l.h.Known
	if err := l.share(ctx); err != nil {
		return fail(err)
	}
	return l, nil
}

// acquireBehind gets a lease of the provider on the login node.
func (p *provider) acquireBehind(ctx context.Context, r driver.Request) (driver.Lease, error) {
	host := p.s.Hosts[0]
	k, err := p.ssh.Again(ctx, host)
	if err != nil {
		return nil, err
	}
	c := p.call(host)
	c.Request = r
	g, err := rpc.Call(ctx, k.Peer, hostcall.CallAcquire, c)
	if err != nil {
		k.Close()
		return nil, sshlink.Transient(err)
	}
	l := &lease{p: p, owner: r.Owner, links: []*sshlink.Link{k}, h: handle{Hosts: []string{host}, Leases: []core.Handle{g.Handle}, Nodes: r.Nodes}, hosts: g.Hosts, deadline: g.Deadline}
	if err := g.Matches(r.Owner, r.Nodes, nil, time.Time{}); err != nil {
		l.hosts = nil
		core.BestEffort(l.Release(context.WithoutCancel(ctx))) // the first error says it; a sweep finds the rest
		return nil, err
	}
	return l, nil
}

// kindOfAll is Permanent only if no host failed for a passing reason.
func kindOfAll(errs []error) core.Kind {
	for _, err := range errs {
		if core.IsKind(err, core.Transient) || core.IsKind(err, core.Lost) {
			return core.Transient
		}
	}
	return core.Unsupported
}

// together joins what went wrong on hosts: what went wrong alike, as mostly on a rack
// whose network is down, is reported of the first, and the others are named.
func together(hosts []string, errs []error) error {
	var (
		joined []error
		alike  = map[string]int{}
		others [][]string
	)
	for i, err := range errs {
		if err == nil {
			continue
		}
		own := regexp.MustCompile(`[0-9]+|\b` + regexp.QuoteMeta(sshlink.NameOf(hosts[i])) + `\b`) // the host's name, and its address
		what := own.ReplaceAllString(err.Error(), "")
		at, known := alike[what]
		if !known {
			alike[what] = len(joined)
			joined, others = append(joined, err), append(others, nil)
			continue
		}
		others[at] = append(others[at], sshlink.NameOf(hosts[i]))
	}
	for i, names := range others {
		if more := len(names) - namedHosts; more > 0 {
			names = append(names[:namedHosts:namedHosts], fmt.Sprintf("%d more", more))
		}
		if len(names) > 0 {
			joined[i] = fmt.Errorf("%w (likewise %s)", joined[i], strings.Join(names, ", "))
		}
	}
	return errors.Join(joined...)
}

// namedHosts is how many hosts are named at most that have failed like another.
const namedHosts = 5

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// each runs f for 0 … n-1, several at once.
func (p *provider) each(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate, panics := make(chan struct{}, atOnce), make([]error, n)
	for i := range n {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			panics[i] = core.Caught(func() error { f(i); return nil })
		})
	}
	wg.Wait()
	if err := firstOf(panics); err != nil {
		panic(err) // in the caller's goroutine, where it is one run's
	}
}

// Recover implements driver.Provider. Hosts that do not answer now are dialled
// again when they are needed.
func (p *provider) Recover(ctx context.Context, h core.Handle) (driver.Lease, error) {
	l := &lease{p: p, owner: h.Owner}
	if h.Version != handleVersion {
		return nil, &core.Error{Kind: core.Unsupported, Op: "recover lease", Object: p.s.Name, Err: fmt.Errorf("its handle has version %d", h.Version), Remedy: "Use the bee that made the lease, or remove what is left by `bee sweep`."}
	}
	if err := json.Unmarshal(h.Data, &l.h); err != nil {
		return nil, err
	}
	if len(l.h.Hosts) == 0 || len(l.h.Leases) != len(l.h.Hosts) {
		return nil, &core.Error{Kind: core.Unsupported, Op: "recover lease", Object: p.s.Name, Err: fmt.Errorf("its handle has %d hosts and %d leases", len(l.h.Hosts), len(l.h.Leases)), Remedy: "Use the bee that made the lease, or remove what is left by `bee sweep`."}
	}
	l.links, l.hosts = make([]*sshlink.Link, len(l.h.Hosts)), l.h.Known
	if p.info != nil {
		// What is known of it is kept on the login node.
		if err := l.refresh(ctx); err != nil {
			l.Disconnect()
			return nil, err
		}
		return l, nil
	}
	// What became of an attempt is on its first host: it is enough that this
	// one answers. Which of the others are lost, it knows.
	status, err := l.status(ctx, 0)
	if err != nil {
		l.Disconnect()
		return nil, err
	}
	if !status.Live {
		l.Disconnect()
		return nil, &core.Error{Kind: core.NotFound, Op: "recover lease on", Object: p.s.Name, Err: errors.New(status.Reason), Remedy: core.RemedyShow}
	}
	return l, nil
}

// List implements driver.Provider: it asks every host.
func (p *provider) List(ctx context.Context, q core.Owner) ([]core.Handle, error) {
	var (
		mu      sync.Mutex
		byOwner = map[core.Owner]*handle{}
		errs    = make([]error, len(p.s.Hosts))
	)
	p.each(len(p.s.Hosts), func(i int) {
		host := p.s.Hosts[i]
		k, err := p.ssh.Connect(ctx, host)
		if err != nil {
			errs[i] = err
			return
		}
		defer k.Close()
		c := p.call(host)
		c.Owner = q
		var found hostcall.Handles
		if found, errs[i] = rpc.Call(ctx, k.Peer, hostcall.CallList, c); errs[i] != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, f := range found {
			h, ok := byOwner[f.Owner]
			if !ok {
				h = &handle{}
				byOwner[f.Owner] = h
			}
			h.Hosts, h.Leases = append(h.Hosts, host), append(h.Leases, f)
			if p.info == nil {
				h.Known = append(h.Known, core.Host{Name: sshlink.NameOf(host), Index: len(h.Known)})
			}
		}
	})
	var handles []core.Handle
	for owner, h := range byOwner {
		data, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		handles = append(handles, core.Handle{Driver: p.Info().Name, Version: handleVersion, Owner: owner, Data: data})
	}
	return handles, together(p.s.Hosts, errs)
}
