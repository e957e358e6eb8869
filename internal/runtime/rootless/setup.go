package rootless

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/devices"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/runtime/command"
)

// setup is what the child needs to make itself a container.
type setup struct {
	Tree        string          `json:"tree"`
	Hostname    string          `json:"hostname"`
	Env         []string        `json:"env"`
	Mounts      []bind          `json:"mounts"`
	Dirs        []string        `json:"dirs"`
	Hosts       []string        `json:"hosts"`
	StateDir    string          `json:"state_dir"`
	DiskScratch bool            `json:"disk_scratch"`
	Binary      string          `json:"binary"`
	RunDir      string          `json:"run_dir"`
	Upper       Upper           `json:"upper"`
	Devices     []driver.Device `json:"devices"`
	Seccomp     bool            `json:"seccomp"`
	Faults      bool            `json:"faults,omitempty"` // see filter
	TimerSlack  time.Duration   `json:"timer_slack,omitempty"`
	// User is whom the processes are inside.
	User core.Account `json:"user"`
	// HostRoot means that the container's files are root's on the host.
	HostRoot bool `json:"host_root,omitempty"`
	// Native asks for the bare host in place of a container.
	Native bool `json:"native,omitempty"`
	// Host, with Native, means that the tree is the host's own, which stays writable.
	Host bool `json:"host,omitempty"`
	// Loader, with Native, asks for no root directory and no mounts of its own.
	Loader bool `json:"loader,omitempty"`
	// ProbeOnly makes the child try everything on an empty tree and exit.
	ProbeOnly bool `json:"probe_only,omitempty"`

	bound *cgroup.Bound // of its memory
}

func newSetup(s driver.ContainerSpec) (setup, error) {
	if s.StateDir == "" || s.RunDir == "" || s.Binary == "" {
		return setup{}, errors.New("a container needs StateDir, RunDir and Binary")
	}
	out := setup{Hostname: s.Hostname, Env: s.Env, Dirs: s.Dirs, Hosts: s.Hosts, DiskScratch: s.DiskScratch, Seccomp: s.Seccomp, Faults: s.Faults, TimerSlack: s.TimerSlack, User: command.Account(s), HostRoot: os.Geteuid() == 0}
	var err error
	abs := func(p string) string {
		a, e := filepath.Abs(p)
		if e != nil {
			err = e
		}
		// The child mounts from its own view: links are followed here.
		if real, e := filepath.EvalSymlinks(a); e == nil {
			return real
		}
		return a
	}
	out.Tree, out.StateDir, out.RunDir, out.Binary = abs(s.Image.Tree), abs(s.StateDir), abs(s.RunDir), abs(s.Binary)
	for _, m := range s.Mounts {
		if m.Dir != nil {
			opened, err := openedMount(m)
			if err != nil {
				return out, err
			}
			out.Mounts = append(out.Mounts, opened)
			continue
		}
		m.Source = abs(m.Source)
		if _, err := os.Stat(m.Source); err != nil {
			return out, &core.Error{Kind: core.NotFound, Op: "mount", Object: m.Source, Err: err}
		}
		out.Mounts = append(out.Mounts, bind{Mount: m})
	}
	gpus, gerr := devices.Host{}.Find(s.GPUs)
	if gerr != nil {
		return out, gerr
	}
	out.Devices = slices.Concat(s.Devices, driver.SameDevices(gpus.Devices))
	for inside, path := range gpus.Files {
		out.Mounts = append(out.Mounts, bind{Mount: driver.Mount{Source: abs(path), Target: inside, ReadOnly: true}})
	}
	return out, err
}
