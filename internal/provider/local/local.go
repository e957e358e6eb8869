// Package local is the provider for the machine that bee itself runs on: as
// it is, or as several emulated hosts (package emulate) on which everything
// that needs more than one host can be tried.
//
// Everything it makes is found again from the file system alone: a lease is a
// directory in <scratch>/bee/.leases, whose name is that of the owner, and which
// holds a record of each process. It must know nothing of what a node does.
package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/reservation"
)

// Settings of a site of this provider.
type Settings struct {
	// Name of the site; emulated hosts are called Name-0, Name-1, …
	Name string
	// EmulatedHosts is the number of hosts to emulate; 0 means this machine
	// itself, as one host.
	EmulatedHosts int
	// Scratch is the directory in which run directories are made; default
	// /var/tmp/bee-UID. $USER and other variables are expanded. A leading
	// part that is missing is made, open to the user alone.
	Scratch string
	// Cache is the image cache; default: the user's.
	Cache string
	// Slots is the number of cores of each host; 0 means this machine's.
	Slots int
	// PrivateScratch gives each emulated host a run directory and an image
	// cache of its own, which the others do not see.
	PrivateScratch bool
	// LinkRate limits each emulated host's link, in bits per second; 0: none.
	LinkRate int64
	// StateDir, if set, keeps note of the scratch directories ever used, so
	// that List finds leases also after Scratch was changed.
	StateDir string
	// Machine is this one's name, where others may be given its leases, as they share
	// the state of runs; else "".
	Machine string
	// HasImage asks the image cache in a directory; nil: it is never known.
	HasImage func(cache, id string) bool
	// TryRuntime names the runtime that works on this host, of that name or, for "auto",
	// of all; nil: it is never known.
	TryRuntime func(ctx context.Context, name string) (string, error)
	// GPUs returns an error where this host has fewer GPUs, or for -1 none; nil: not known.
	GPUs func(number int) error
	// RDMA returns an error where this host has no usable RDMA device or, where pci is not
	// "", no usable function of that address; nil: not known.
	RDMA func(pci string) error
	// BurstNeeds is what has to be done before this machine can mount burst buffers; nil: it is not known.
	BurstNeeds func(context.Context) string
	// BurstBuffers finds what burst buffers have left below a directory for runs; nil: there are none.
	BurstBuffers func(base string) driver.BurstBuffers
	// Variable finds the variables of the user's account; nil: those of this process.
	Variable environ.Lookup
	// Ledger is where runs of this user reserve what they need of this machine; "": nowhere.
	Ledger reservation.Ledger
	// Studies is where studies lock this machine; "": this user's own ledger.
	Studies reservation.Ledger
	// Runs is the most runs at a time; 0: no limit. Oversubscribe has runs begin though their
	// cores and memory are not free.
	Runs          int
	Oversubscribe bool
	// NodeArgv is the command of a node; default: the bee binary, "node".
	NodeArgv []string
}

// handleVersion is that of the handles' Data.
const handleVersion = 1

type provider struct {
	s    Settings
	base string // <scratch>/bee
}

// New gives the provider of a site. Invalid where a setting is impossible.
func New(s Settings) (driver.Provider, error) {
	invalid := func(format string, a ...any) error {
		return &core.Error{Kind: core.Invalid, Op: "site", Object: s.Name, Err: fmt.Errorf(format, a...), Remedy: "Correct the site in the sites file."}
	}
	if s.Name == "" {
		s.Name = "local"
	}
	switch {
	case s.EmulatedHosts < 0 || s.EmulatedHosts > 1000:
		return nil, invalid("cannot emulate %d hosts, only 0 to 1000", s.EmulatedHosts)
	case s.Slots < 0:
		return nil, invalid("cannot use %d slots", s.Slots)
	case s.LinkRate < 0:
		return nil, invalid("cannot limit links to %d bits per second", s.LinkRate)
	case s.EmulatedHosts == 0 && (s.LinkRate > 0 || s.PrivateScratch):
		return nil, invalid("private_scratch and link_rate are for emulated hosts: set hosts")
	}
	if s.Slots == 0 {
		s.Slots = runtime.NumCPU()
	}
	if s.Scratch == "" {
		s.Scratch = DefaultScratch()
	}
	var err error
	if s.Scratch, err = leasedir.Scratch(s.Scratch, os.LookupEnv); err != nil {
		return nil, invalid("%w", err)
	}
	if s.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = s.Scratch
		}
		s.Cache = filepath.Join(dir, "bee")
	}
	if !filepath.IsAbs(s.Cache) {
		return nil, invalid("cache %s must be an absolute path", s.Cache)
	}
	return &provider{s: s, base: filepath.Join(s.Scratch, "bee")}, nil
}

// DefaultScratch is where run directories are made unless a site says else: see
// fsutil.OwnPlace, if another user was first with that name.
func DefaultScratch() string {
	dir := filepath.Join("/var/tmp", "bee-"+strconv.Itoa(os.Geteuid()))
	if own, err := fsutil.OwnPlace(dir); err == nil {
		return own
	}
	return dir // the error of its use says what is wrong
}

func (p *provider) Info() driver.Info {
	summary := "this machine"
	if p.s.EmulatedHosts > 0 {
		summary = fmt.Sprintf("%d emulated hosts on this machine", p.s.EmulatedHosts)
		if p.s.EmulatedHosts == 1 {
			summary = "1 emulated host on this machine"
		}
	}
	return driver.Info{Name: "local", Summary: summary}
}

// Foreign implements driver.Provider: no other machine reaches this one.
func (p *provider) Foreign() driver.ForeignLeases { return nil }

// HostLocks implements driver.Provider: emulated hosts are this machine, too.
func (p *provider) HostLocks() driver.HostLocks { return leasedir.HostLocks{Ledger: p.s.Studies} }

// BurstBuffers implements driver.Provider.
func (p *provider) BurstBuffers() driver.BurstBuffers {
	if p.s.BurstBuffers == nil {
		return nil
	}
	return p.s.BurstBuffers(p.base)
}

// Inventory implements driver.Provider: nothing is rented.
func (p *provider) Inventory() driver.Inventory { return nil }

// hosts is the number that one lease may have.
func (p *provider) hosts() int { return max(1, p.s.EmulatedHosts) }

// Probe finds out by trying: it makes and ends an emulated host, where those
// are asked for.
func (p *provider) Probe(ctx context.Context) (driver.Facts, error) {
	f := driver.Facts{Usable: true, Slots: p.s.Slots, Hosts: p.hosts(), Detail: map[string]string{"scratch": p.s.Scratch, "cache": p.s.Cache}}
	if p.s.BurstNeeds != nil {
		f.BurstNeeds = p.s.BurstNeeds(ctx)
	}
	err := p.probe(ctx, &f)
	if ctx.Err() != nil {
		return driver.Facts{}, err
	}
	if err != nil {
		f.Usable, f.Reason, f.Remedy, f.Passing = false, err.Error(), core.Remedy(err), core.IsKind(err, core.Transient)
	}
	return f, nil
}

// fits checks what a run asks for against what the site has.
func (p *provider) fits(r driver.Request) error {
	refuse := func(remedy, format string, a ...any) error {
		return &core.Error{Kind: core.Unsupported, Op: "acquire", Object: p.s.Name, Err: fmt.Errorf(format, a...), Remedy: remedy}
	}
	if r.Nodes < 1 || !r.Owner.Complete() {
		return &core.Error{Kind: core.Invalid, Op: "acquire", Object: p.s.Name, Err: fmt.Errorf("%d nodes for owner %q", r.Nodes, r.Owner), Remedy: "Correct `nodes:`."}
	}
	if r.Nodes > p.hosts() {
		if p.s.EmulatedHosts == 0 {
			return refuse(fmt.Sprintf("Ask for one node, or set `hosts: %d` at the site to emulate them on this machine.", r.Nodes), "the job wants %d nodes, and the site is this machine alone", r.Nodes)
		}
		return refuse("Ask for fewer nodes, or raise `hosts` at the site.", "the job wants %d nodes, and the site has %d", r.Nodes, p.s.EmulatedHosts)
	}
	if r.SlotsPerNode > p.s.Slots {
		return refuse("Ask for fewer, or raise `slots` at the site.", "the job wants %d slots on each node, and the site has %d", r.SlotsPerNode, p.s.Slots)
	}
	if all := core.HostMemory(); r.Memory > all/int64(r.Nodes) && all > 0 && !p.s.Oversubscribe {
		return refuse("Lower `memory:`, or name another site.", "the job wants %d MiB of memory, and this machine has %d MiB", int64(r.Nodes)*(r.Memory>>20), all>>20)
	}
	return nil
}
