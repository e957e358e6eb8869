package leasedir

import (
	"context"
	"errors"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/reservation"
)

// HostLocks implements driver.HostLocks on this machine, or for an allocation that this machine
// serves.
type HostLocks struct {
	// Ledger has the locks; "": this user's own.
	Ledger     reservation.Ledger
	Allocation string
}

// LockHosts implements driver.HostLocks.
func (h HostLocks) LockHosts(_ context.Context, s driver.Study) (driver.HostLock, error) {
	ledger := h.Ledger
	if ledger == "" {
		ledger = reservation.Own()
	}
	unlock, err := ledger.LockForStudy(h.Allocation, reservation.Study(s))
	if err == nil {
		return driver.HostLock{Unlock: unlock}, nil
	}
	object, _ := os.Hostname() // for people
	if h.Allocation != "" {
		object = "allocation " + h.Allocation
	}
	e := &core.Error{Op: "measure on", Object: object, Err: err}
	if _, is := errors.AsType[*reservation.HeldError](err); is {
		e.Kind, e.Remedy = core.Busy, "Wait for its end: two studies would disturb each other."
	} else {
		e.Kind, e.Remedy = core.Unsupported, "Make a directory that you own usable in /tmp, /var/tmp or /dev/shm of that host."
	}
	return driver.HostLock{}, e
}
