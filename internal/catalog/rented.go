package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// rentedBy returns what all providers of rented machines need of a site.
func rentedBy(s spec.Site, o Options, bastion string, boot, keep time.Duration) cloud.Settings {
	var lists *cloud.Lists
	if o.Clusters != nil {
		lists = &o.Clusters.rented
	}
	return cloud.Settings{
		Lists: lists,
		Name:  s.Name, Dir: filepath.Join(o.StateDir, "cloud", url.QueryEscape(s.Name)), Machine: o.Machine, Installation: o.Installation,
		Slot: s.Slot, Boot: boot, Keep: keep, Bastion: bastion, Reach: reach(s, o, bastion),
	}
}

// placementOf returns how the machines of a site are placed; byDefault: where its user does not say.
func placementOf(p spec.Placement, byDefault cloud.PlacementKind) cloud.Placement {
	switch p.Kind {
	case spec.PlacementCluster:
		return cloud.Placement{Kind: cloud.Cluster, Required: p.Required}
	case spec.PlacementSpread:
		return cloud.Placement{Kind: cloud.Spread, Required: p.Required}
	case spec.PlacementNone:
		return cloud.Placement{}
	}
	return cloud.Placement{Kind: byDefault}
}

// reach returns how rented machines of a site are reached: by ssh, with keys of their lease alone, perhaps through a bastion.
func reach(s spec.Site, o Options, bastion string) cloud.Reach {
	return cloud.Reach{
		Provider: func(c cloud.Connection) (driver.Provider, error) {
			settings := o.behind(s, c.Hosts())
			settings.Options = pinned(s.SSHOptions, c, bastion)
			settings.Site = func(host string) json.RawMessage { // by number: a machine may get another address
				return siteOf(s, fmt.Sprint("node-", slices.Index(c.Hosts(), host)))
			}
			return ssh.New(settings)
		},
		Moved: func(inner core.Handle, c cloud.Connection) (core.Handle, error) { return ssh.Moved(inner, c.Hosts()) },
		Output: func(ctx context.Context, c cloud.Connection, address, command string) (string, error) {
			return sshlink.New(sshlink.Settings{Options: pinned(s.SSHOptions, c, bastion)}).Output(ctx, c.User+"@"+address, command)
		},
	}
}

// pinned returns the options of connections to rented machines: of the user's keys and known hosts none
// is used, and none is changed. A bastion is reached with the user's own.
func pinned(options map[string]string, c cloud.Connection, bastion string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, options)
	maps.Copy(all, map[string]string{
		"IdentityFile": `"` + c.Key + `"`, "IdentitiesOnly": "yes", "IdentityAgent": "none", "PreferredAuthentications": "publickey",
		"UserKnownHostsFile": `"` + c.KnownHosts + `"`, "GlobalKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "yes",
		"UpdateHostKeys": "no", "CheckHostIP": "no", "ForwardAgent": "no", "ControlPath": "none",
	})
	command := ""
	switch {
	case c.Jump != "":
		command = sshlink.JumpCommand(all, c.User+"@"+c.Jump, c.Addresses[0])
	case bastion != "":
		command = sshlink.JumpCommand(options, bastion, "")
	default:
		return all
	}
	maps.DeleteFunc(all, func(key, _ string) bool {
		return strings.EqualFold(key, "ProxyJump") || strings.EqualFold(key, "ProxyCommand") // they are on the way to the first host
	})
	all["ProxyCommand"] = command
	return all
}
