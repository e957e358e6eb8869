// Package slurm is the provider for clusters under Slurm. It works on a login
// node, as the ordinary user that everybody is there, with Slurm's own programs
// and nothing installed: a job is submitted whose one step starts an agent, the
// bee binary, on each node that it gets.
//
// The scratch directory must be one that the login nodes and the compute nodes
// share. Everything that is known of a lease is there, in a directory of its
// own (package leasedir), so that any login node can continue with it; what is
// copied to and from the hosts goes through it too, before they are granted and
// after they are gone. Only what has to reach a process on a node goes to its
// agent: over TCP, with mutual TLS whose keys are made for the lease and are in
// its directory, readable by the user alone.
package slurm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Settings of a site of this provider.
type Settings struct {
	Name string
	// Scratch is a directory that all nodes share; $USER and other variables
	// are expanded. Default: .bee in the home directory.
	Scratch string
	// Slots is the number of cores to ask for on each node; 0 means all.
	Slots int
	// Slot is the time to ask for, 0 the partition's default; MinSlot, if set,
	// lets Slurm grant less, down to that, to start the job earlier.
	Slot, MinSlot time.Duration
	// Partition, Account, QOS, Constraint, Gres, Reservation and Licenses are
	// given to sbatch where they are set.
	Partition, Account, QOS, Constraint, Gres, Reservation, Licenses string
	// Exclusive asks for whole nodes, whatever Slots is.
	Exclusive bool
	// Options are further options for sbatch.
	Options []string
	// Job is an allocation of the user's (salloc, or a batch job that bee runs
	// in), which is used instead of a job of our own.
	Job string
	// Queue, if not nil, is shared with others of this process.
	Queue *Queue `json:"-"`
	// HasImage asks the image cache in a directory.
	HasImage func(cache, id string) bool `json:"-"`
	// BurstBuffers finds what burst buffers have left below a directory for runs; nil: there are none.
	BurstBuffers func(base string) driver.BurstBuffers `json:"-"`
	// Variable finds the variables of the user's account; nil: those of this process.
	Variable environ.Lookup `json:"-"`
	// HostArgv and NodeArgv are the commands of a host's agent and of a node;
	// default: the bee binary's.
	HostArgv, NodeArgv []string
}

type provider struct {
	s    Settings
	base string // <scratch>/bee
}

// New gives the provider of a site. Invalid where a setting is impossible.
func New(s Settings) (driver.Provider, error) {
	invalid := func(format string, a ...any) error {
		return &core.Error{Kind: core.Invalid, Op: "site", Object: s.Name, Err: fmt.Errorf(format, a...), Remedy: "Correct the site in the sites file."}
	}
	if s.Scratch == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, invalid("no scratch is given, and there is no home directory: %w", err)
		}
		s.Scratch = filepath.Join(home, ".bee")
	}
	scratch, err := leasedir.Scratch(s.Scratch, os.LookupEnv)
	if err != nil {
		return nil, invalid("%w (on the login node)", err)
	}
	s.Scratch = scratch
	if s.Slots < 0 {
		return nil, invalid("cannot use %d slots", s.Slots)
	}
	return &provider{s: s, base: filepath.Join(s.Scratch, "bee")}, nil
}

// Info names the driver, as it is with these settings.
func (s Settings) Info() driver.Info {
	switch {
	case s.Job != "":
		return driver.Info{Name: "slurm", Summary: "Slurm job " + s.Job}
	case s.Partition != "":
		return driver.Info{Name: "slurm", Summary: "Slurm, partition " + s.Partition, Unattended: true}
	}
	return driver.Info{Name: "slurm", Summary: "Slurm", Unattended: true}
}

// Info implements driver.Provider.
func (p *provider) Info() driver.Info { return p.s.Info() }

// Probe asks Slurm for the partition, or the allocation, and for what the user's account
// allows.
func (p *provider) Probe(ctx context.Context) (driver.Facts, error) {
	f := driver.Facts{Detail: map[string]string{"scratch": p.s.Scratch}}
	leave, err := p.s.Queue.enter(ctx)
	if err != nil {
		return f, err
	}
	defer leave()
	var rooms, good []room
	for _, age := range []time.Duration{settled, recent} { // what changes is seen before anybody is refused
		if rooms, good, err = p.survey(ctx, age, &f); err == nil || core.IsKind(err, core.Transient) {
			break
		}
	}
	if ctx.Err() != nil {
		return f, context.Cause(ctx)
	}
	if err == nil {
		err = p.try()
	}
	if err != nil {
		f.Reason, f.Remedy, f.Passing = err.Error(), core.Remedy(err), core.IsKind(err, core.Transient) || core.IsKind(err, core.Busy)
	}
	if len(rooms) == 0 {
		return f, nil
	}
	f.Usable, f.Version = err == nil, p.version(ctx)
	if !f.Usable {
		good = rooms
	}
	var names []string
	for _, r := range rooms {
		names = append(names, r.partition)
	}
	for _, r := range good {
		f.Hosts, f.Slots, f.Left = max(f.Hosts, r.nodes(0, 0)), max(f.Slots, r.most()), r.left
	}
	f.Detail["partition"] = strings.Join(names, ",")
	return f, nil
}

// try reports whether the scratch directory can be used, as far as the login node sees.
func (p *provider) try() error {
	tmp, err := leasedir.Try(p.base)
	if err != nil {
		return leasedir.Unusable(p.s.Scratch, err)
	}
	return os.Remove(tmp)
}

// TryRuntime implements driver.Provider: before they are asked for there are no hosts.
func (p *provider) TryRuntime(context.Context, string) (works, host string, err error) {
	return "", "", nil
}

// Directories implements driver.Provider, as far as the login node sees.
func (p *provider) Directories(ctx context.Context, wanted []driver.Directory) ([]string, error) {
	return leasedir.Directories(ctx, wanted, p.s.Variable)
}

// Queue implements driver.Provider.
func (p *provider) Queue() driver.SiteQueue { return p }

// Foreign implements driver.Provider: the agent of a login node answers other machines.
func (p *provider) Foreign() driver.ForeignLeases { return nil }

// HostLocks implements driver.Provider: an allocation of the user's is locked. One that bee asks
// for is of one study already.
func (p *provider) HostLocks() driver.HostLocks {
	if p.s.Job == "" {
		return nil
	}
	return leasedir.HostLocks{Allocation: p.s.Job}
}

// BurstBuffers implements driver.Provider: those of all nodes are on the scratch that they share with the login node.
func (p *provider) BurstBuffers() driver.BurstBuffers {
	if p.s.BurstBuffers == nil {
		return nil
	}
	return p.s.BurstBuffers(p.base)
}

// Inventory implements driver.Provider: nothing is rented.
func (p *provider) Inventory() driver.Inventory { return nil }

// Echo implements driver.Provider, as far as the login node sees.
func (p *provider) Echo(_ context.Context, data []byte) ([]byte, error) {
	return leasedir.Echo(data, p.base, filepath.Join(p.base, cacheDir, "tmp")) // where images arrive
}

// survey asks for the partitions, or the allocation, and for those that take the site's
// jobs, by answers not older than age, and says what is to be known of them.
func (p *provider) survey(ctx context.Context, age time.Duration, f *driver.Facts) (rooms, good []room, err error) {
	if rooms, err = p.rooms(ctx, age); err != nil {
		return nil, nil, err
	}
	if set, err := p.config(ctx, age); err == nil {
		f.Notice = killWait(set)
		p.regulate(ctx, age, rooms, set)
	}
	good, err = fitting(rooms, p.takes)
	f.Preempted = 0
	for _, r := range good {
		if last := r.grace + f.Notice; r.yields && (f.Preempted == 0 || last < f.Preempted) {
			f.Preempted = last
		}
	}
	return rooms, good, err
}

// fits checks what a run asks for against what the partitions have.
func (p *provider) fits(ctx context.Context, r driver.Request) error {
	if r.Nodes < 1 || !r.Owner.Complete() {
		return &core.Error{Kind: core.Invalid, Op: "use site", Object: p.s.Name, Err: fmt.Errorf("%d nodes for owner %q", r.Nodes, r.Owner), Remedy: "Correct `nodes:`."}
	}
	rooms, err := p.rooms(ctx, recent)
	if err == nil {
		_, err = fitting(rooms, func(room room) error {
			if err := p.takes(room); err != nil {
				return err
			}
			return p.holds(room, r)
		})
	}
	if err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "use site", Object: p.s.Name, Err: err, Remedy: core.Remedy(err)}
	}
	return nil
}
