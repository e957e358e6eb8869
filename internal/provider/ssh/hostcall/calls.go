// Package hostcall holds the calls between the provider ssh and its agents on hosts. It is data only, so that neither
// needs to know the other.
package hostcall

import (
	"path"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// endBuffer is longer than a host waits for an I/O process: one that takes longer hangs.
const endBuffer = 2 * time.Minute

// The calls of an agent. Each names its site, so that the agent finds leases
// again that an earlier agent made.
var (
	CallFacts       = rpc.Method[Call, Facts]{Name: "facts", By: rpc.Controller}
	CallEcho        = rpc.Method[Call, Echoed]{Name: "echo", By: rpc.Controller, Request: rpc.LargeSize, Reply: rpc.LargeSize} // see driver.Provider
	CallRuntime     = rpc.Method[Call, RuntimeName]{Name: "runtime", By: rpc.Controller, Within: rpc.Unlimited}
	CallDirs        = rpc.Method[Call, Directories]{Name: "directories", By: rpc.Controller, Request: rpc.LargeSize, Reply: rpc.LargeSize}
	CallAcquire     = rpc.Method[Call, Granted]{Name: "acquire", By: rpc.Controller, Reply: rpc.LargeSize, Within: rpc.Unlimited}
	CallReady       = rpc.Method[Call, Granted]{Name: "ready", By: rpc.Controller, Reply: rpc.LargeSize}
	CallForecast    = rpc.Method[Call, Waiting]{Name: "forecast", By: rpc.Controller}
	CallList        = rpc.Method[Call, Handles]{Name: "list", By: rpc.Controller, Reply: rpc.LargeSize}
	CallStatus      = rpc.Method[Call, Status]{Name: "status", By: rpc.Controller}
	CallAlive       = rpc.Method[Call, bool]{Name: "alive", By: rpc.Controller}
	CallLaunch      = rpc.Method[Call, rpc.None]{Name: "launch", By: rpc.Controller, Request: 2 * rpc.LargeSize}
	CallStageSpec   = rpc.Method[Call, rpc.None]{Name: "stage-spec", By: rpc.Controller, Request: 2 * rpc.LargeSize}
	CallEnableSpec  = rpc.Method[Call, rpc.None]{Name: "enable-spec", By: rpc.Controller}
	CallAttend      = rpc.Method[Call, rpc.None]{Name: "attend", By: rpc.Controller}
	CallDial        = rpc.Method[Call, rpc.None]{Name: "dial", By: rpc.Controller}
	CallStage       = rpc.Method[Call, rpc.None]{Name: "stage", By: rpc.Controller, Within: rpc.Unlimited} // what is there is read first
	CallFetch       = rpc.Method[Call, rpc.None]{Name: "fetch", By: rpc.Controller}
	CallDownload    = rpc.Method[Call, rpc.None]{Name: "download", By: rpc.Controller}
	CallLendVolume  = rpc.Method[Call, Granted]{Name: "lend-volume", By: rpc.Controller, Reply: rpc.LargeSize, Within: rpc.Unlimited}
	CallReuseVolume = rpc.Method[Call, rpc.None]{Name: "reuse-volume", By: rpc.Controller, Within: rpc.Unlimited}
	CallLook        = rpc.Method[Call, Lent]{Name: "look", By: rpc.Controller, Within: rpc.Unlimited}
	CallCopyTree    = rpc.Method[Call, rpc.None]{Name: "copy-tree", By: rpc.Controller, Within: rpc.Unlimited}
	CallRelease     = rpc.Method[Call, rpc.None]{Name: "release", By: rpc.Controller, Within: rpc.Unlimited}
	CallAdopt       = rpc.Method[Call, Adopter]{Name: "adopt", By: rpc.Controller}
	CallLockHost    = rpc.Method[Call, rpc.None]{Name: "lock-host", By: rpc.Controller} // held while the stream is open
	CallBuffers     = rpc.Method[Call, Buffers]{Name: "buffers", By: rpc.Controller, Reply: rpc.LargeSize}
	CallEndBuffer   = rpc.Method[Call, Buffers]{Name: "end-buffer", By: rpc.Controller, Within: endBuffer} // replies with one
	CallImage       = rpc.Method[Call, bool]{Name: "image", By: rpc.Controller}
	CallMark        = rpc.Method[Call, rpc.None]{Name: "mark", By: rpc.Controller} // makes a file, for others to see
	CallSees        = rpc.Method[Call, bool]{Name: "sees", By: rpc.Controller}
	CallUnmark      = rpc.Method[Call, rpc.None]{Name: "unmark", By: rpc.Controller}
)

// Bounds of what messages contain.
const (
	maxHosts   = 1 << 16
	maxHandles = 1 << 16
	maxURL     = 16 << 10
	maxNumber  = 20
)

// Check implements the check of package rpc.
func (c Call) Check() error {
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
	if err := Adopter(c.Adopter).Check(); err != nil {
		return err
	}
	if err := (Buffers{c.Buffer}).Check(); err != nil {
		return err
	}
	return sshlink.CheckTexts("text of a call", c.Study.Name, c.Study.Token, c.Study.By, c.Instead, c.Path, c.From, c.Part, c.Image, c.Runtime, c.Via, c.Within, c.Seen)
}

// Check implements the check of package rpc.
func (f Facts) Check() error {
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
	return sshlink.CheckTexts("finding", f.Reason, f.Remedy, f.BurstNeeds, f.Version, f.Arch)
}

// Lent is driver.Lent.
type Lent driver.Lent

// Check implements the check of package rpc.
func (l Lent) Check() error {
	if l.Bytes < 0 {
		return sshlink.Invalid("size of a tree", l.Bytes)
	}
	return nil
}

// Echoed is what has been written to a site and read from it.
type Echoed []byte

// Check implements the check of package rpc. What it should be is known to who asked.
func (Echoed) Check() error { return nil }

// RuntimeName names a runtime that works.
type RuntimeName string

// Check implements the check of package rpc.
func (n RuntimeName) Check() error {
	if len(n) > 64 || strings.Trim(string(n), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return sshlink.Invalid("name of a runtime", n)
	}
	return nil
}

// Directories are paths of directories on a host.
type Directories []string

// Check implements the check of package rpc.
func (d Directories) Check() error {
	for _, dir := range d {
		if !path.IsAbs(dir) {
			return sshlink.Invalid("directory", dir)
		}
	}
	return sshlink.CheckTexts("directory", d...)
}

// Check implements the check of package rpc. What was asked for is known to the lease.
func (g Granted) Check() error {
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
	if err := Waiting(g.Waiting).Check(); err != nil {
		return err
	}
	return sshlink.CheckTexts("lease", g.Lost, g.Handle.Driver)
}

// Waiting is what a run waits for.
type Waiting driver.Waiting

// Check implements the check of package rpc.
func (w Waiting) Check() error {
	if len(w.Allocation) > maxNumber || strings.Trim(w.Allocation, "0123456789") != "" {
		return sshlink.Invalid("number of an allocation", w.Allocation)
	}
	return sshlink.CheckTexts("reason", w.Reason)
}

// Handles are those of leases.
type Handles []core.Handle

// Check implements the check of package rpc.
func (l Handles) Check() error {
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

// Buffers are burst buffers on a host.
type Buffers []driver.BurstBuffer

// Check implements the check of package rpc.
func (l Buffers) Check() error {
	if len(l) > maxHandles {
		return sshlink.Invalid("number of burst buffers", len(l))
	}
	for _, b := range l {
		if b.Owner.Attempt < 0 || b.Undrained < 0 || b.Changes < 0 {
			return sshlink.Invalid("number of a burst buffer", min(b.Undrained, int64(b.Changes), int64(b.Owner.Attempt)))
		}
		if err := sshlink.CheckTexts("burst buffer", b.Owner.User, b.Owner.Run, b.Host, b.Dir, b.Via, b.Remote, string(b.State), b.Detail); err != nil {
			return err
		}
	}
	return nil
}

// Status is that of a lease.
type Status driver.Status

// Check implements the check of package rpc.
func (s Status) Check() error { return sshlink.CheckTexts("reason", s.Reason) }

// Adopter is the installation that controls a run.
type Adopter driver.Adopter

// Check implements the check of package rpc.
func (a Adopter) Check() error {
	if err := driver.Adopter(a).Check(); err != nil {
		return err
	}
	return sshlink.CheckTexts("installation", a.Installation, a.Machine, a.Ticket)
}
