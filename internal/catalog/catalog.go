// Package catalog lists every driver that there is. It is the only package
// that imports them all; anyone who needs one asks here by name.
package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/devices"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/node"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/provider/aws"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/provider/local"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/provider/slurm"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/provider/ssh/agent"
	"github.com/bee-hpc/bee/internal/provider/virtualbox"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/runtime/apptainer"
	"github.com/bee-hpc/bee/internal/runtime/charliecloud"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/docker"
	"github.com/bee-hpc/bee/internal/runtime/lxc"
	"github.com/bee-hpc/bee/internal/runtime/podman"
	"github.com/bee-hpc/bee/internal/runtime/rootless"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/sshlink"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/store/s3"
	"github.com/bee-hpc/bee/internal/vm"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"github.com/bee-hpc/bee/internal/volume/burst/remote/far"
)

// Options are what providers need to know of this machine.
type Options struct {
	StateDir string // of this installation
	Cache    string // the image cache
	Binary   string // the bee binary
	// Installation is this one's id; "": not known.
	Installation string
	// Machine is this one's name, where other machines share StateDir; else "".
	Machine string
	// Progress receives what providers send to hosts on their own account, in
	// bytes, or is nil.
	Progress func(what string, done, total int64)
	// Variable finds the variables of the user's account; nil: those of this process.
	Variable environ.Lookup
	// Clusters is what providers of one process share; nil: nothing.
	Clusters *Clusters
}

// Clusters is what the providers of a process's runs share: the connections to login nodes
// of clusters, the looks at their queues, and the lists of what is rented.
type Clusters struct {
	logins sshlink.Logins
	queue  slurm.Queue
	rented cloud.Lists
}

// Provider makes the provider of a site.
func Provider(s spec.Site, o Options) (driver.Provider, error) {
	switch s.Provider {
	case "local":
		scratch := s.Scratch
		if scratch == "" {
			scratch = os.Getenv("BEE_SCRATCH")
		}
		return local.New(local.Settings{
			Name: s.Name, EmulatedHosts: s.Hosts.Count, Scratch: scratch, Cache: o.Cache,
			Slots: s.Slots, PrivateScratch: s.PrivateScratch, LinkRate: int64(s.LinkRate), StateDir: o.StateDir, Machine: o.Machine,
			HasImage: hasImage, TryRuntime: workingRuntime, BurstNeeds: mount.NeedsOfRun, BurstBuffers: burstBuffers, Variable: o.Variable,
			Ledger: reservation.Own(), Studies: reservation.Ledger(os.Getenv("BEE_STUDY_LOCKS")), Runs: s.Runs, Oversubscribe: s.Oversubscribe, GPUs: gpus, RDMA: usableRDMA,
		})
	case "slurm":
		return slurmSite(s, o)
	case aws.Driver:
		return awsSite(s, o)
	case openstack.Driver:
		return openstackSite(s, o)
	case virtualbox.Driver:
		return virtualboxSite(s, o)
	case "ssh":
		var hosts []string
		for _, pattern := range s.Hosts.Patterns {
			expanded, err := spec.ExpandHosts(pattern)
			if err != nil {
				return nil, &core.Error{Kind: core.Invalid, Op: "read hosts of site", Object: s.Name, Err: err}
			}
			hosts = append(hosts, expanded...)
		}
		settings := o.behind(s, hosts)
		settings.Site = func(host string) json.RawMessage { return siteOf(s, host) }
		return ssh.New(settings)
	}
	return nil, &core.Error{
		Kind: core.Unsupported, Op: "find provider", Object: s.Provider, Err: errors.New("this bee has none of that name"),
		Remedy: "Check `provider:` in the sites file.",
	}
}

// watchGPUs begins to measure what so many GPUs of this host use.
func watchGPUs(ctx context.Context, n int) func() (used, memory float64, known bool) {
	return devices.Host{}.Watch(ctx, n).Use
}

// gpus returns an error where this host has fewer GPUs.
func gpus(number int) error {
	_, err := devices.Host{}.Find(number)
	return err
}

// usableRDMA returns an error where this host has no usable RDMA device, whatever the runtime
// and the image; or no usable PCI function of an address, whatever the guest's memory.
func usableRDMA(pci string) error {
	if pci != "" {
		return rdma.Unusable(rdma.Host{}.CheckFunction(pci, 0))
	}
	return rdma.Unusable(rdma.Host{}.Look().Check(nil, true))
}

// behind are the settings for speaking by ssh to the hosts of a site.
func (o Options) behind(s spec.Site, hosts []string) ssh.Settings {
	return ssh.Settings{
		Name: s.Name, Hosts: hosts, Options: s.SSHOptions, Progress: o.Progress,
		BinaryFor: o.binaryFor,
	}
}

// siteOf is one host of an ssh site as its own agent sees it. Hosts may share
// a file system, so each has a directory of its own in the scratch.
func siteOf(s spec.Site, host string) json.RawMessage {
	own := spec.Site{Name: s.Name, Provider: "local", Slots: s.Slots, Runs: s.Runs, Oversubscribe: s.Oversubscribe}
	if s.Scratch != "" {
		own.Scratch = path.Join(s.Scratch, "bee-"+sshlink.NameOf(host))
	}
	raw, err := json.Marshal(own)
	if err != nil {
		panic(err) // plain data: this cannot happen
	}
	return raw
}

// slurmSite gives the provider of a cluster: on its login node, where one is
// named, else here.
func slurmSite(s spec.Site, o Options) (driver.Provider, error) {
	settings := slurm.Settings{Name: s.Name, Scratch: s.Scratch, Slots: s.Slots, Slot: s.Slot, HasImage: hasImage, BurstBuffers: burstBuffers, Variable: o.Variable}
	if q := s.Slurm; q != nil {
		settings.Partition, settings.Account, settings.QOS, settings.Constraint = q.Partition, q.Account, q.QOS, q.Constraint
		settings.Gres, settings.Reservation, settings.Licenses = q.Gres, q.Reservation, q.Licenses
		settings.Exclusive, settings.MinSlot, settings.Options, settings.Job = q.Exclusive, q.MinSlot, q.Options, q.Job
	}
	if s.Login == "" {
		if o.Clusters != nil {
			settings.Queue = &o.Clusters.queue
		}
		return slurm.New(settings)
	}
	there := s
	there.Login = ""
	raw, err := json.Marshal(there)
	if err != nil {
		return nil, err
	}
	behind := o.behind(s, []string{s.Login})
	behind.Site = func(string) json.RawMessage { return raw }
	if o.Clusters != nil {
		behind.Logins = &o.Clusters.logins
	}
	return ssh.NewLogin(behind, settings.Info())
}

func hasImage(cache, id string) bool {
	s, err := image.Open(cache, slog.New(slog.DiscardHandler))
	return err == nil && s.Has(id)
}

// Runtimes gives every runtime: first those of auto, in its order of preference, then those
// that are to be asked for.
func Runtimes() []driver.Runtime { return append(preferred(), lxc.New(command.Options{})) }

// preferred gives the runtimes of which auto takes one.
func preferred() []driver.Runtime {
	return []driver.Runtime{
		rootless.New(rootless.Options{}), podman.New(command.Options{}), docker.New(docker.Options{}),
		charliecloud.New(command.Options{}), apptainer.New(command.Options{}),
	}
}

// Preferred reports whether auto may take the runtime of a name.
func Preferred(name string) bool {
	return slices.ContainsFunc(preferred(), func(rt driver.Runtime) bool { return rt.Info().Name == name })
}

// Runtime chooses a runtime by name; auto takes the first that works here.
// The reason is for people.
func Runtime(ctx context.Context, name string) (driver.Runtime, string, error) {
	if name == "auto" || name == "" {
		return automatic(ctx, preferred(), verdictDir())
	}
	if name == rootless.NativeName { // auto never chooses it
		return rootless.Native(rootless.Options{}), "the study asks for it", nil
	}
	if name == rootless.HostName {
		return rootless.HostPrograms(rootless.Options{}), "the study asks for it", nil
	}
	for _, rt := range Runtimes() {
		if name == rt.Info().Name {
			return rt, "the job or the site asks for it", nil
		}
	}
	return nil, "", &core.Error{Kind: core.Invalid, Op: "find runtime", Object: name, Err: errors.New("there is none of that name"), Remedy: "Name one that `bee doctor` lists, or `auto`."}
}

// NodeOptions are what `bee node` is built with.
func NodeOptions() node.Options {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return node.Options{Runtime: Runtime, Machine: machine, Burst: burstVolume, BurstAfar: burstAfar, FreeMemory: vm.FreeMemory, NoRings: qemu.NoRings, GPUs: watchGPUs, Log: log, OpenImages: func(dir string) (node.Images, error) {
		s, err := image.Open(dir, log)
		if err != nil {
			return nil, err
		}
		return nodeImages{s}, nil
	}}
}

// Starter starts the nodes of an attempt that was left with its site.
func Starter() driver.Starter {
	return control.Starter(func(conn net.Conn) (control.Head, error) { return client.New(conn) })
}

// nodeImages is the image cache as a node sees it.
type nodeImages struct{ *image.Store }

func (n nodeImages) ImportFlat(ctx context.Context, r io.Reader) error {
	_, err := n.Store.ImportFlat(ctx, r)
	return err
}

// binaryFor finds the bee binary for an architecture: this one, the one that a
// variable names, or the release binary beside this one.
func (o Options) binaryFor(arch string) (string, error) {
	binary := os.Getenv("BEE_BINARY_" + strings.ToUpper(arch))
	switch {
	case binary != "":
	case arch == goruntime.GOARCH:
		binary = o.Binary
	default:
		binary = filepath.Join(filepath.Dir(o.Binary), "bee-linux-"+arch)
	}
	_, err := os.Stat(binary)
	return binary, err
}

// Agent is what `bee remote` is built with.
func Agent() agent.Agent {
	cache := func() string {
		if dir := os.Getenv("BEE_CACHE"); filepath.IsAbs(dir) {
			return dir
		}
		dir, err := os.UserCacheDir()
		if err != nil {
			dir = local.DefaultScratch()
		}
		return filepath.Join(dir, "bee")
	}
	clusters := &Clusters{}
	return agent.Agent{
		Download: downloadHere,
		Volumes:  far.Register,
		Store:    func(dir string) driver.Store { return dirstore.Store(dir) },
		Upload:   s3.Gather,
		Provider: func(raw json.RawMessage, account environ.Lookup) (driver.Provider, error) {
			var s spec.Site
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, err
			}
			if s.Scratch != "" {
				var err error
				if s.Scratch, err = leasedir.Scratch(s.Scratch, account); err != nil {
					return nil, &core.Error{Kind: core.Invalid, Op: "site", Object: s.Name, Err: err, Remedy: "Set the variable where every login of the account sees it, or write the path out."}
				}
			}
			return Provider(s, Options{Cache: cache(), Clusters: clusters, Variable: account})
		},
	}
}
