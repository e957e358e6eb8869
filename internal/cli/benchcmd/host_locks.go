package benchcmd

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// hostLocks keep other studies of this account away from the hosts of a study, on this machine
// and behind ssh.
type hostLocks struct {
	study    driver.Study
	provider func(spec.Site) (driver.Provider, error)
	held     map[string]driver.HostLock // by site
}

func newHostLocks(study string, provider func(spec.Site) (driver.Provider, error)) *hostLocks {
	by := fmt.Sprintf("process %d", os.Getpid())
	if name, err := os.Hostname(); err == nil {
		by += " on " + name
	}
	return &hostLocks{
		study:    driver.Study{Name: strings.ReplaceAll(study, " ", "-"), Token: fmt.Sprintf("%016x", seed()), By: by},
		provider: provider, held: map[string]driver.HostLock{},
	}
}

// lock locks the hosts of a site, unless they are. Busy: another study has one of them.
func (l *hostLocks) lock(ctx context.Context, site spec.Site) error {
	if l == nil || site.Provider == "slurm" && !site.Granted() { // its hosts are granted to the study alone
		return nil
	}
	if held, is := l.held[site.Name]; is {
		if held.Lost == nil || !held.Lost() {
			return nil
		}
		held.Unlock()
		delete(l.held, site.Name)
	}
	p, err := l.provider(site)
	if err != nil {
		return err
	}
	locks := p.HostLocks()
	if locks == nil {
		return nil
	}
	held, err := locks.LockHosts(ctx, l.study)
	if err != nil {
		return err
	}
	l.held[site.Name] = held
	return nil
}

// unlock releases all of them.
func (l *hostLocks) unlock() {
	if l == nil {
		return
	}
	for name, held := range l.held {
		held.Unlock()
		delete(l.held, name)
	}
}

// isHeld reports whether another study has hosts of this one, which ends it: they would
// disturb each other.
func isHeld(err error) bool { return core.IsKind(err, core.Busy) }
