package catalog

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/provider/virtualbox"
	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/spec"
)

// virtualboxSite returns the provider of a site whose runs have guests of VirtualBox on this machine.
func virtualboxSite(s spec.Site, o Options) (driver.Provider, error) {
	v := s.VirtualBox
	if v == nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: s.Name, Err: errors.New("it has no `virtualbox:`"), Remedy: "Add `virtualbox: {machine: …, user: …, host_key: …}` to the site."}
	}
	return virtualbox.New(virtualbox.Settings{
		Name: s.Name, Dir: filepath.Join(o.StateDir, "virtualbox", url.QueryEscape(s.Name)), Machine: o.Machine,
		Base: v.Machine, Snapshot: v.Snapshot, Devices: virtualbox.Devices(v.Devices), CPUs: v.CPUs, Memory: int64(v.Memory),
		User: v.User, HostKey: v.HostKey, Boot: v.Boot, Locks: leasedir.HostLocks{Ledger: reservation.Ledger(os.Getenv("BEE_STUDY_LOCKS"))},
		Reach: func(c virtualbox.Connection) (driver.Provider, error) {
			settings := o.behind(s, []string{c.Host()})
			settings.Options = guestOptions(s.SSHOptions, c)
			settings.Site = func(string) json.RawMessage { return siteOf(s, "guest") }
			return ssh.New(settings)
		},
	})
}

// guestOptions are the options of connections to a guest: the user's keys count, and not the hosts that the user knows.
func guestOptions(options map[string]string, c virtualbox.Connection) map[string]string {
	own := c.Options()
	all := maps.Clone(own)
	for key, value := range options {
		known := strings.EqualFold(key, "ProxyJump")
		for k := range own {
			known = known || strings.EqualFold(key, k)
		}
		if !known {
			all[key] = value
		}
	}
	return all
}
