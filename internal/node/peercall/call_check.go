package peercall

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
)

// Bounds of what one node accepts from another.
const (
	MaxText  = 4 << 10 // of a name or a reason
	maxCores = 1 << 20
	MaxNotes = 64
)

// Invalid is the error of a value that no node sends.
func Invalid(what string, value any) error {
	return &core.Error{Kind: core.Invalid, Op: "check", Object: what, Err: fmt.Errorf("%.200q is no valid value", fmt.Sprint(value)), Remedy: core.RemedyVersions}
}

func checkRank(rank int) error {
	if rank < 0 || rank > nodecall.MaxRank {
		return Invalid("rank", rank)
	}
	return nil
}

func checkCount(what string, n, most int) error {
	if n < 0 || n > most {
		return Invalid(what, n)
	}
	return nil
}

func checkText(what, text string) error {
	if len(text) > MaxText || strings.ContainsRune(text, 0) {
		return Invalid(what, text)
	}
	return nil
}

// Check implements the check of package rpc.
func (r JoinRequest) Check() error {
	return errors.Join(
		checkRank(r.Rank), nodecall.CheckAddresses(r.Addrs), nodecall.CheckAddress(r.Reached),
		checkCount("cores", r.Cores, maxCores), checkCount("processors", r.Processors, maxCores),
		checkText("machine", r.Machine), checkText("nonce", r.Nonce), checkText("reason", r.NoRuntime), checkText("reason", r.NoRings),
		checkText("network", r.Network.CIDR), checkText("network", r.Network.Interface),
	)
}

// Check reports a member that no node could be.
func (m Member) Check() error {
	errs := []error{
		checkRank(m.Rank), checkText("name of a host", m.Name), checkText("address", m.IP), checkCount("cores", m.Cores, maxCores),
		checkCount("slots", m.Slots, maxCores), checkCount("processors", m.Processors, maxCores), checkText("machine", m.Machine),
	}
	if m.Addr != "" {
		errs = append(errs, nodecall.CheckAddress(m.Addr))
	}
	return errors.Join(errs...)
}

// Check implements the check of package rpc.
func (r BeginRequest) Check() error {
	if len(r.Members) == 0 || len(r.Members) > nodecall.MaxRank || len(r.Nonces) != len(r.Members) {
		return Invalid("members", len(r.Members))
	}
	for rank, m := range r.Members {
		if m.Rank != rank {
			return Invalid("rank of a member", m.Rank)
		}
		if err := m.Check(); err != nil {
			return err
		}
	}
	for _, nonce := range r.Nonces {
		if err := checkText("nonce", nonce); err != nil {
			return err
		}
	}
	return nil
}

// Check implements the check of package rpc.
func (r BeginReply) Check() error { return checkRank(r.Group) }

// Check implements the check of package rpc.
func (r StartReply) Check() error {
	errs := []error{checkText("runtime", r.Runtime), checkText("reason", r.Why), checkCount("notes", len(r.Notes), MaxNotes)}
	for _, text := range r.Notes {
		errs = append(errs, checkText("note", text))
	}
	return errors.Join(errs...)
}

// Check implements the check of package rpc.
func (r EndRequest) Check() error {
	if r.Grace < 0 {
		return Invalid("grace", r.Grace)
	}
	return nil
}

// Check implements the check of package rpc.
func (r EndReply) Check() error {
	n := r.Report
	if n.UserTime < 0 || n.SystemTime < 0 || n.MaxRSS < 0 {
		return Invalid("use of a node", n.UserTime)
	}
	return errors.Join(
		checkRank(n.Rank), checkText("name of a host", n.Host), checkText("address", n.Addr), checkText("runtime", n.Runtime),
		checkText("reason why memory is not limited", n.MemoryUnlimited), checkCount("cores", n.Cores, maxCores), core.CheckRDMA(n.RDMA), n.Energy.Check(),
		checkCount("length of a command line", len(n.VMCommand), core.MostVMCommand),
	)
}

// Check implements the check of package rpc.
func (r HoldRequest) Check() error {
	if !slices.Contains([]string{HoldPause, HoldResume, HoldSave, HoldFill, HoldTake}, r.Do) {
		return Invalid("order for a virtual machine", r.Do)
	}
	if r.Number < 0 || r.Do == HoldSave && r.Number == 0 {
		return Invalid("number of a snapshot", r.Number)
	}
	return checkGlobs(r.Globs)
}

// Check implements the check of package rpc.
func (r PartRequest) Check() error {
	if r.Number < 0 {
		return Invalid("number of a snapshot", r.Number)
	}
	return checkRank(r.Rank)
}

// Check implements the check of package rpc.
func (f Failure) Check() error { return errors.Join(checkRank(f.Rank), f.Failed.Check()) }

// Check implements the check of package rpc.
func (g Globs) Check() error { return checkGlobs(g.Globs) }

func checkGlobs(list []string) error {
	for _, g := range list {
		if !filepath.IsLocal(g) || strings.ContainsRune(g, 0) {
			return Invalid("pattern of files", g)
		}
	}
	return nil
}

// Check implements the check of package rpc.
func (r SignalRequest) Check() error {
	const last = 64
	if r.Number < 1 || r.Number > last {
		return Invalid("number of a signal", r.Number)
	}
	return nil
}

// Check implements the check of package rpc.
func (r UseReply) Check() error { return r.Use.Check() }

// Check implements the check of package rpc.
func (n Note) Check() error { return checkText("note", n.Text) }

// Check implements the check of package rpc.
func (r CarryRequest) Check() error { return checkRank(r.Rank) }

// Check implements the check of package rpc.
func (n Names) Check() error {
	if len(n.Files) > Batch {
		return Invalid("names in one message", len(n.Files))
	}
	for _, f := range n.Files {
		if !filepath.IsLocal(f) || strings.ContainsRune(f, 0) {
			return Invalid("name of a file", f)
		}
	}
	return nil
}

// Refused is about a call whose content does not fit its caller.
func Refused(call string, why error) error {
	return &core.Error{Kind: core.Invalid, Op: "answer call", Object: call, Err: why}
}

// FailedOn names a host in an error.
func FailedOn(host, op string, err error) error {
	if e, ok := errors.AsType[*core.Error](err); ok && e.Op == "reach host" {
		return err // it names both hosts
	}
	return &core.Error{Kind: core.KindOf(err), Op: op, Object: host, Err: err, Remedy: core.Remedy(err)}
}

// mostNotice bounds the time of a notice in seconds. Maintenance is announced weeks before.
const mostNotice = 1e8

// Check implements the check of package rpc.
func (n Notice) Check() error {
	if !(n.Seconds >= 0 && n.Seconds <= mostNotice) {
		return Invalid("time of a notice", n.Seconds)
	}
	switch n.Kind {
	case Reclaim, Maintenance, Rebalance:
		return nil
	}
	return Invalid("kind of a notice", n.Kind)
}
