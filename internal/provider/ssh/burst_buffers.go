package ssh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// burstBuffers implements driver.BurstBuffers: the agent of each host has those of that host, and the agent on a login
// node those of its cluster.
type burstBuffers struct{ p *provider }

// BurstBuffers implements driver.Provider.
func (p *provider) BurstBuffers() driver.BurstBuffers { return burstBuffers{p} }

// Left implements driver.BurstBuffers. What a host says is another installation's is not believed to be anything.
func (b burstBuffers) Left(ctx context.Context, installation string) ([]driver.BurstBuffer, error) {
	p := b.p
	var (
		mu   sync.Mutex
		list []driver.BurstBuffer
	)
	errs := make([]error, len(p.s.Hosts))
	p.each(len(p.s.Hosts), func(i int) {
		host := p.s.Hosts[i]
		k, err := p.ssh.Connect(ctx, host)
		if err != nil {
			errs[i] = err
			return
		}
		defer p.ssh.Keep(k)
		c := p.call(host)
		c.Owner.User = installation
		found, err := rpc.Call(ctx, k.Peer, hostcall.CallBuffers, c)
		errs[i] = sshlink.Transient(err)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range found {
			if f.Via = host; f.Owner.User == installation || f.Owner.User == "" {
				list = append(list, f)
			}
		}
	})
	return list, together(p.s.Hosts, errs)
}

// End implements driver.BurstBuffers.
func (b burstBuffers) End(ctx context.Context, of driver.BurstBuffer, reported bool) (driver.BurstBuffer, error) {
	p := b.p
	if !slices.Contains(p.s.Hosts, of.Via) {
		return of, &core.Error{Kind: core.Invalid, Op: "end burst buffer", Object: of.Dir, Err: fmt.Errorf("%q is no host of the site", of.Via), Remedy: core.RemedyVersions}
	}
	k, err := p.ssh.Connect(ctx, of.Via)
	if err != nil {
		return of, err
	}
	defer p.ssh.Keep(k)
	c := p.call(of.Via)
	c.Buffer, c.Reported = of, reported
	got, err := rpc.Call(ctx, k.Peer, hostcall.CallEndBuffer, c)
	if err == nil && (len(got) != 1 || got[0].Owner != of.Owner || got[0].Dir != of.Dir) {
		err = &core.Error{Kind: core.Lost, Op: "end burst buffer", Object: of.Dir, Err: errors.New("the host has replied with another one"), Remedy: core.RemedyVersions}
	}
	if err != nil {
		return of, sshlink.Transient(err)
	}
	got[0].Via = of.Via
	return got[0], nil
}
