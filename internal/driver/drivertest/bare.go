package drivertest

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

// BareProvider is the part of a provider that says nothing of a site: fakes embed it, and
// have a method of their own for what their tests script. A method that is added to the
// interface is added here.
type BareProvider struct{}

// Echo implements driver.Provider.
func (BareProvider) Echo(_ context.Context, data []byte) ([]byte, error) { return data, nil }

// TryRuntime implements driver.Provider: it is not known.
func (BareProvider) TryRuntime(context.Context, string) (runtime, host string, err error) {
	return "", "", nil
}

// Directories implements driver.Provider: there are none.
func (BareProvider) Directories(context.Context, []driver.Directory) ([]string, error) {
	return nil, nil
}

// Queue implements driver.Provider: there is none.
func (BareProvider) Queue() driver.SiteQueue { return nil }

// Foreign implements driver.Provider: other machines cannot continue its leases.
func (BareProvider) Foreign() driver.ForeignLeases { return nil }

// HostLocks implements driver.Provider: there are none.
func (BareProvider) HostLocks() driver.HostLocks { return nil }

// BurstBuffers implements driver.Provider: there are none.
func (BareProvider) BurstBuffers() driver.BurstBuffers { return nil }

// Inventory implements driver.Provider: nothing is rented.
func (BareProvider) Inventory() driver.Inventory { return nil }

// BareLease is the same of a lease: one without capabilities, whose hosts have every image.
type BareLease struct{}

// Disconnect implements driver.Lease.
func (BareLease) Disconnect() {}

// HasImage implements driver.Lease: every host has every image.
func (BareLease) HasImage(context.Context, int, string) (bool, error) { return true, nil }

// TryRuntime implements driver.Lease: it is not known.
func (BareLease) TryRuntime(context.Context, string) (runtime, host string, err error) {
	return "", "", nil
}

// KeepsFiles implements driver.Lease: they go with the hosts.
func (BareLease) KeepsFiles() bool { return false }

// Deadline implements driver.Lease: it is not known.
func (BareLease) Deadline() time.Time { return time.Time{} }

// Queue implements driver.Lease: there is none.
func (BareLease) Queue() driver.LeaseQueue { return nil }

// Autostart implements driver.Lease: there is none.
func (BareLease) Autostart() driver.Autostart { return nil }

// DirectTransfer implements driver.Lease: there is none.
func (BareLease) DirectTransfer() driver.DirectTransfer { return nil }

// VolumeReuse implements driver.Lease: there is none.
func (BareLease) VolumeReuse() driver.VolumeReuse { return nil }

// StoreAccess implements driver.Lease: there is none.
func (BareLease) StoreAccess() driver.StoreAccess { return nil }

// Downloads implements driver.Lease: there are none.
func (BareLease) Downloads() driver.Downloader { return nil }

// Fencer implements driver.Lease.
func (BareLease) Fencer() driver.Fencer { return nil }

// Price implements driver.Lease: there is no price list.
func (BareLease) Price() *driver.Price { return nil }

// Adopters implements driver.Lease: the site records none.
func (BareLease) Adopters() driver.Adopters { return nil }
