package launch

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/wire"
)

// DefaultGrace is the time that a task has to end. Nodes may take joinTimeout to join the head.
const (
	DefaultGrace = spec.LeastMargin
	joinTimeout  = 60 * time.Second
	sampleEvery  = 10 * time.Second
)

// MakePlan is the attempt as the head shall carry it out, but for the hosts.
func MakePlan(job *spec.Job, run state.Run, image core.Image, values map[string]string, binds map[string]string, resumed bool, m placement.Margin) (*protocol.Plan, error) {
	p := &protocol.Plan{
		Job: job.Name, Image: image, Slots: job.Slots(),
		Env: job.Env, Secrets: values,
		Volume: job.Volume.Path, Binds: binds, Workdir: job.Workdir,
		Root: job.User == spec.UserRoot || bare(job), CallerIDs: job.User == spec.UserCaller, GPUs: int(job.GPUs), RDMA: job.RDMA.Device, RDMAMemory: int64(job.RDMA.Memory), RDMAQPs: job.RDMA.QPs, RDMAPath: job.RDMA.Path, RDMADomain: job.RDMA.Domain, PCI: job.RDMA.PCI, DiskScratch: job.Scratch == "disk", Seccomp: job.Seccomp != nil && *job.Seccomp, Unfiltered: job.Seccomp != nil && !*job.Seccomp,
		Timeout: job.Timeout, Grace: DefaultGrace, JoinTimeout: joinTimeout,
	}
	if job.VM == nil { // else guests have it as their hardware
		p.Cores, p.Memory = job.Cores, int64(job.Memory)
	}
	if v := job.Volume; v.Kind == spec.VolumeBurst {
		p.Burst = &protocol.Burst{Remote: v.Remote, Disk: int64(v.Disk), Rate: int64(v.Rate) / 8, Protect: v.Protect, Credentials: v.Credentials, Again: job.Retry > 0, Prefetch: v.Prefetch}
	}
	if from := job.Progress; from != nil {
		p.Progress, p.ProgressFile, p.ProgressProgram, p.ProgressTotal = from.Match, from.File, from.Program, from.Total
	}
	p.Metrics, p.Sample = job.Metrics, sampleEvery
	for _, out := range job.Outputs {
		p.Outputs = append(p.Outputs, out.From)
	}
	if err := startable(job, image, values); err != nil {
		return nil, err
	}
	entrypoint := job.EntrypointWords()
	var err error
	if job.Setup != nil && (!run.SetupDone || !resumed) { // what it did is in the checkpoint
		if p.Setup, err = core.Command(image.Config, entrypoint, job.Setup.Words()); err != nil {
			return nil, err
		}
	}
	command := job.Run
	if resumed && job.Resume != nil {
		command = job.Resume
	}
	if c := job.Checkpoint; c != nil {
		p.Checkpoint = &protocol.Checkpoint{
			VM: job.SavesVM(), Signal: int(c.SignalNumber()), Grace: m.Grace, Margin: m.Total, Least: placement.FirstMargin(job).Total, Paths: c.Paths,
			File: c.File, Command: c.Command.Words(), Every: c.Every,
		}
	}
	if job.Post != nil {
		if p.Post, err = core.Command(image.Config, entrypoint, job.Post.Words()); err != nil {
			return nil, err
		}
	}
	if err := addCases(p, job, image.Config, entrypoint); err != nil {
		return nil, err
	}
	p.SharedVolume = job.NeedsShared()
	p.Run, err = core.Command(image.Config, entrypoint, command.Words())
	return p, err
}

// addCases adds the cases of a pack, which have the host's cores and memory among them.
func addCases(p *protocol.Plan, job *spec.Job, image core.ImageConfig, entrypoint []string) error {
	if job.Pack == nil {
		return nil
	}
	p.Pack, p.CaseAtOnce, p.CaseStopAt = true, job.PackAtOnce, job.PackStopAt
	for _, c := range job.Pack {
		p.CaseCores, p.CaseMemory = c.Cores, int64(c.Memory)
		one := protocol.Case{Number: c.Number, Env: c.Env, Workdir: c.Workdir, Saves: c.Saves}
		command := func(of *spec.Command) ([]string, error) { return core.Command(image, entrypoint, of.Words()) }
		for i, step := range []*spec.Command{c.Setup, c.Command, c.Post} {
			if step == nil && i != 1 { // without a command, the image's own is meant
				continue
			}
			argv, err := command(step)
			if err != nil {
				return err
			}
			if i == 1 {
				one.Command = len(one.Steps)
			}
			one.Steps = append(one.Steps, argv)
		}
		if c.Resume != nil {
			argv, err := command(c.Resume)
			if err != nil {
				return err
			}
			one.Resume = append(one.Resume, argv)
			if c.Post != nil {
				one.Resume = append(one.Resume, one.Steps[len(one.Steps)-1])
			}
		}
		p.Cases = append(p.Cases, one)
	}
	return nil
}

// RuntimeFor names the runtime of a job's containers on a site.
func RuntimeFor(job *spec.Job, site spec.Site) string {
	return First(job.Runtime, site.Runtime, "auto")
}

// NodeHosts gives the host of every node, by rank. Where several nodes share a
// host, each the guest of a virtual machine of its own, they differ in name.
func NodeHosts(nodes, perHost int, hosts []core.Host) []core.Host {
	if perHost <= 1 {
		return hosts
	}
	var list []core.Host
	for rank := 0; rank < nodes && rank/perHost < len(hosts); rank++ { // they may not be granted yet
		h := hosts[rank/perHost]
		h.Name = fmt.Sprintf("%s-vm%d", h.Name, rank%perHost)
		list = append(list, h)
	}
	return list
}

// nicIsOpen reports whether the hosts decide how guests are attached to their switches.
func nicIsOpen(v *protocol.VM) bool {
	return v != nil && v.NIC == "" && v.Fabric != "multicast" && v.Fabric != "none"
}

// nodeConfigs makes the configuration of every node, with keys made for this
// attempt alone, and gives those of each host's first node, with the others as
// its siblings. The head's comes first; the others need its addresses, which
// are known once it runs.
func nodeConfigs(owner core.Owner, hosts []core.Host, perHost int, plan *protocol.Plan, runtimeName, network string, shared []byte) ([]protocol.Config, error) {
	var authority *wire.Authority
	if len(hosts) > 1 {
		var err error
		if authority, err = wire.NewAuthority(); err != nil {
			return nil, err
		}
	}
	var configs []protocol.Config
	for i, h := range hosts {
		c := protocol.Config{
			Version: protocol.Version, Owner: owner, Shared: shared, Rank: i, Size: len(hosts),
			PerHost: perHost, Host: h, Runtime: runtimeName, Network: network, TryRuntime: plan.VM != nil && plan.VM.OnDemand, TryRings: len(hosts) > 1 && nicIsOpen(plan.VM), OwnMounts: plan.Burst != nil,
		}
		if authority != nil {
			cert, key, err := authority.Issue(protocol.NodeName(i))
			if err != nil {
				return nil, err
			}
			c.CA, c.Cert, c.Key = authority.Certificate(), cert, key
		}
		if i%perHost == 0 {
			configs = append(configs, c)
		} else {
			first := &configs[len(configs)-1]
			first.Siblings = append(first.Siblings, c)
		}
	}
	configs[0].Plan = plan
	return configs, nil
}

// nodeCommand starts the nodes of a host.
func nodeCommand(c protocol.Config) driver.NodeCommand {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(err) // a Config is plain data: this cannot happen
	}
	return driver.NodeCommand{Host: c.Host.Index, Config: raw, Log: protocol.NodeLogPath(c.Host.Dir, c.Rank)}
}

// WantArch is the architecture for which the image is resolved before a lease
// reports that of the hosts.
func WantArch(hosts []core.Host) string {
	if len(hosts) > 0 && hosts[0].Arch != "" {
		return hosts[0].Arch
	}
	return runtime.GOARCH
}

// First returns the first word that is neither empty nor auto, or else the last one.
func First(words ...string) string {
	for _, w := range words {
		if w != "" && w != "auto" {
			return w
		}
	}
	return words[len(words)-1]
}
