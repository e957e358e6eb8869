package ssh

import (
	"path"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// The calls of an agent. Each names its site, so that the agent finds leases
// again that an earlier agent made.
var (
	callFacts       = rpc.Method[call, facts]{Name: "facts", By: rpc.Controller}
	callEcho        = rpc.Method[call, echoed]{Name: "echo", By: rpc.Controller, Request: rpc.LargeSize, Reply: rpc.LargeSize} // see driver.Provider
	callRuntime     = rpc.Method[call, runtimeName]{Name: "runtime", By: rpc.Controller, Within: rpc.Unlimited}
	callDirs        = rpc.Method[call, directories]{Name: "directories", By: rpc.Controller, Request: rpc.LargeSize, Reply: rpc.LargeSize}
	callAcquire     = rpc.Method[call, granted]{Name: "acquire", By: rpc.Controller, Reply: rpc.LargeSize, Within: rpc.Unlimited}
	callReady       = rpc.Method[call, granted]{Name: "ready", By: rpc.Controller, Reply: rpc.LargeSize}
	callForecast    = rpc.Method[call, waiting]{Name: "forecast", By: rpc.Controller}
	callList        = rpc.Method[call, handles]{Name: "list", By: rpc.Controller, Reply: rpc.LargeSize}
	callStatus      = rpc.Method[call, status]{Name: "status", By: rpc.Controller}
	callAlive       = rpc.Method[call, bool]{Name: "alive", By: rpc.Controller}
	callLaunch      = rpc.Method[call, rpc.None]{Name: "launch", By: rpc.Controller, Request: 2 * rpc.LargeSize}
	callStageSpec   = rpc.Method[call, rpc.None]{Name: "entrust", By: rpc.Controller, Request: 2 * rpc.LargeSize}
	callEnableSpec  = rpc.Method[call, rpc.None]{Name: "commit", By: rpc.Controller}
	callAttend      = rpc.Method[call, rpc.None]{Name: "attend", By: rpc.Controller}
	callDial        = rpc.Method[call, rpc.None]{Name: "dial", By: rpc.Controller}
	callStage       = rpc.Method[call, rpc.None]{Name: "stage", By: rpc.Controller, Within: rpc.Unlimited} // what is there is read first
	callFetch       = rpc.Method[call, rpc.None]{Name: "fetch", By: rpc.Controller}
	callDownload    = rpc.Method[call, rpc.None]{Name: "download", By: rpc.Controller}
	callLendVolume  = rpc.Method[call, granted]{Name: "yield", By: rpc.Controller, Reply: rpc.LargeSize, Within: rpc.Unlimited}
	callReuseVolume = rpc.Method[call, rpc.None]{Name: "inherit", By: rpc.Controller, Within: rpc.Unlimited}
	callRelease     = rpc.Method[call, rpc.None]{Name: "release", By: rpc.Controller, Within: rpc.Unlimited}
	callImage       = rpc.Method[call, bool]{Name: "image", By: rpc.Controller}
	callMark        = rpc.Method[call, rpc.None]{Name: "mark", By: rpc.Controller} // makes a file, for others to see
	callSees        = rpc.Method[call, bool]{Name: "sees", By: rpc.Controller}
	callUnmark      = rpc.Method[call, rpc.None]{Name: "unmark", By: rpc.Controller}
)

// Bounds of what messages contain.
const (
	maxHosts   = 1 << 16
	maxHandles = 1 << 16
	maxURL     = 16 << 10
	maxNumber  = 20
)

// Check implements the check of package rpc.
func (c call) Check() error {
	if c.Host < 0 || c.Host > maxHosts {
		return sshlink.Invalid("index of a host", c.Host)
	}
	for _, d := range c.Directories {
		if err := sshlink.CheckTexts("directory", d.Path); err != nil {
			return err
		}
	}
	if d := c.Download; d != nil {
		if len(d.URL) > maxURL {
			return sshlink.Invalid("length of a URL", len(d.URL))
		}
		if err := sshlink.CheckTexts("download", d.Name, d.SHA256, d.Tag, d.Dir, d.Part, d.Remote); err != nil {
			return err
		}
	}
	return sshlink.CheckTexts("text of a call", c.Path, c.From, c.Image, c.Runtime, c.Via, c.Within, c.Seen)
}

// Check implements the check of package rpc.
func (f facts) Check() error {
	switch {
	case f.Slots < 0 || f.Facts.Hosts < 0:
		return sshlink.Invalid("number of hosts or cores", min(f.Slots, f.Facts.Hosts))
	case f.Notice < 0 || f.Preempted < 0 || f.Left < 0:
		return sshlink.Invalid("time of a site", min(f.Notice, f.Preempted, f.Left))
	case len(f.Detail) > 1000:
		return sshlink.Invalid("number of findings", len(f.Detail))
	}
	for name, text := range f.Detail {
		if err := sshlink.CheckTexts("finding", name, text); err != nil {
			return err
		}
	}
	return sshlink.CheckTexts("finding", f.Reason, f.Remedy, f.Version, f.Arch)
}

// echoed is what has been written to a site and read from it.
type echoed []byte

// Check implements the check of package rpc. What it should be is known to who asked.
func (echoed) Check() error { return nil }

// runtimeName names a runtime that works.
type runtimeName string

// Check implements the check of package rpc.
func (n runtimeName) Check() error {
	if len(n) > 64 || strings.Trim(string(n), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return sshlink.Invalid("name of a runtime", n)
	}
	return nil
}

// directories are paths of directories on a host.
type directories []string

// Check implements the check of package rpc.
func (d directories) Check() error {
	for _, dir := range d {
		if !path.IsAbs(dir) {
			return sshlink.Invalid("directory", dir)
		}
	}
	return sshlink.CheckTexts("directory", d...)
}

// Check implements the check of package rpc. What was asked for is known to the lease.
func (g granted) Check() error {
	if len(g.Hosts) > maxHosts {
		return sshlink.Invalid("number of hosts", len(g.Hosts))
	}
	for i, h := range g.Hosts {
		if h.Index != i {
			return sshlink.Invalid("index of a host", h.Index)
		}
		if h.Slots < 0 || len(h.Addrs) > sshlink.MaxAddrs {
			return sshlink.Invalid("cores or addresses of a host", h.Slots)
		}
		if err := sshlink.CheckTexts("host", h.Name, h.Arch, h.Dir, h.Cache); err != nil {
			return err
		}
		if h.Dir != "" && !path.IsAbs(h.Dir) {
			return sshlink.Invalid("directory of a host", h.Dir)
		}
	}
	if err := waiting(g.Waiting).Check(); err != nil {
		return err
	}
	return sshlink.CheckTexts("lease", g.Lost, g.Handle.Driver)
}

type waiting driver.Waiting

// Check implements the check of package rpc.
func (w waiting) Check() error {
	if len(w.Allocation) > maxNumber || strings.Trim(w.Allocation, "0123456789") != "" {
		return sshlink.Invalid("number of an allocation", w.Allocation)
	}
	return sshlink.CheckTexts("reason", w.Reason)
}

type handles []core.Handle

// Check implements the check of package rpc.
func (l handles) Check() error {
	if len(l) > maxHandles {
		return sshlink.Invalid("number of leases", len(l))
	}
	for _, h := range l {
		if h.Owner.Attempt < 0 {
			return sshlink.Invalid("attempt", h.Owner.Attempt)
		}
		if err := sshlink.CheckTexts("owner of a lease", h.Driver, h.Owner.User, h.Owner.Run); err != nil {
			return err
		}
	}
	return nil
}

type status driver.Status

// Check implements the check of package rpc.
func (s status) Check() error { return sshlink.CheckTexts("reason", s.Reason) }
