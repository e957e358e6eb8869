package control

import (
	"errors"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// hintShared adds to the error of a command that hosts without a common file system may
// be why it failed.
func (a *attempt) hintShared(r *protocol.Result, err error) error {
	e, ok := errors.AsType[*core.Error](err)
	if !ok || e.Kind != core.Permanent || r.SharedVolume || r.InSetup || a.sub.Job.Nodes < 2 || slices.Contains([]string{spec.SharedRequired, spec.SharedAny}, a.sub.Job.Volume.Shared) {
		return err
	}
	e.Remedy = strings.TrimSpace(e.Remedy + " The hosts share no file system: each node had files of its own. Where the job needs one directory for all, `volume: {shared: required}` skips such sites; where node 0 needs the others' files at the end, `post:` runs once they are gathered.")
	return e
}

// hint9p adds to the error of a command in guests what 9p, by which they have the volume,
// cannot do.
func (a *attempt) hint9p(e *core.Error) *core.Error {
	vm := a.sub.Job.VM
	if a.rec.Guest == "" || vm == nil || vm.Share == protocol.ShareVirtiofs || a.sub.Job.Volume.Kind == spec.VolumeImage {
		return e
	}
	e.Remedy = strings.TrimSpace(e.Remedy + " Its guests have the volume by 9p, which has no FIFOs, sockets, fallocate, exchange by rename, nor open files without a name: where the job needs them, `vm: {share: virtiofs}` or `volume: dataimage` has them (docs/reference/volumes.md).")
	return e
}
