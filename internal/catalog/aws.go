package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/aws"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// awsSite returns the provider of a site whose machines are rented from EC2.
func awsSite(s spec.Site, o Options) (driver.Provider, error) {
	a := s.AWS
	if a == nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: s.Name, Err: errors.New("it has no `aws:`"), Remedy: "Add `aws: {types: […], image: …}` to the site."}
	}
	return aws.New(aws.Settings{
		Profile: a.Profile, Region: a.Region, Types: a.Types, Zones: a.Zones, Image: a.Image, User: a.User,
		Subnets: a.Network.Subnets, SSHFrom: a.Network.SSHFrom, Disk: int64(a.Disk), Tags: a.Tags,
		Cloud: cloud.Settings{
			Name: s.Name, Dir: filepath.Join(o.StateDir, "cloud", url.QueryEscape(s.Name)), Machine: o.Machine,
			Slot: s.Slot, Boot: a.Boot, Keep: a.Keep, Reach: reach(s, o),
		},
	})
}

// reach returns how rented machines of a site are reached: by ssh, with keys of their lease alone.
func reach(s spec.Site, o Options) cloud.Reach {
	return cloud.Reach{
		Provider: func(c cloud.Connection) (driver.Provider, error) {
			settings := o.behind(s, c.Hosts())
			settings.Options = pinned(s.SSHOptions, c)
			settings.Site = func(host string) json.RawMessage { return siteOf(s, host) }
			return ssh.New(settings)
		},
		Output: func(ctx context.Context, c cloud.Connection, address, command string) (string, error) {
			return sshlink.New(sshlink.Settings{Options: pinned(s.SSHOptions, c)}).Output(ctx, c.User+"@"+address, command)
		},
	}
}

// pinned returns the options of connections to rented machines: of the user's keys and known hosts none
// is used, and none is changed.
func pinned(options map[string]string, c cloud.Connection) map[string]string {
	all := map[string]string{}
	maps.Copy(all, options)
	maps.Copy(all, map[string]string{
		"IdentityFile": `"` + c.Key + `"`, "IdentitiesOnly": "yes", "IdentityAgent": "none", "PreferredAuthentications": "publickey",
		"UserKnownHostsFile": `"` + c.KnownHosts + `"`, "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
		"UpdateHostKeys": "no", "CheckHostIP": "no", "ForwardAgent": "no", "ControlPath": "none",
	})
	return all
}
