package driver

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Inventory lists what a cloud has for a site. Its things are released as the leases of their owners are (ReleaseOwned).
type Inventory interface {
	// Rented returns everything with an owner's tags that the cloud has. An error may come with a part of it.
	Rented(ctx context.Context, q core.Owner) ([]Rented, error)
	// Types returns the types of machines whose names match patterns with * and ?, in their order; of none, the site's.
	// Prices that are not known are left out.
	Types(ctx context.Context, patterns []string) ([]MachineType, error)
	// Images returns the images that its machines boot; nil: it keeps none.
	Images() MachineImages
}

// MachineType is a type of machines that a cloud rents.
type MachineType struct {
	Name string
	// Arch is the GOARCH of its machines, Memory their size in bytes.
	Arch   string
	Cores  int
	Memory int64
	GPUs   int
	// Zones are where they are; none: where the cloud likes.
	Zones []string
	// Price is that of an hour on demand, and Spot the lowest of a spot machine; nil: not known, or there are none.
	Price, Spot *Price
}

// RentedKind is a kind of thing that a cloud has.
type RentedKind string

// Kinds of things.
const (
	RentedMachine     RentedKind = "machine"
	RentedDisk        RentedKind = "disk"
	RentedAddress     RentedKind = "address"     // one that is reserved until a call releases it
	RentedReservation RentedKind = "reservation" // machines that are granted from a start to an end
	RentedGroup       RentedKind = "group"       // what shields machines, with what places them
	RentedImage       RentedKind = "image"       // one that machines boot, or a part of one; it belongs to no run
)

// Rented is a thing that a cloud has for an owner. It costs, or belongs to what does.
type Rented struct {
	Kind RentedKind
	// ID and Name are the cloud's; "": it has no name.
	ID, Name string
	// Owner is whose it is; a zero one is not known.
	Owner core.Owner
	// Type is the type of a machine, the size of a disk, an address, or how many machines are reserved, and Zone where
	// it is; "": not known.
	Type, Zone string
	// Hosts is how many machines a reservation grants.
	Hosts int
	// State is in the cloud's words, or "".
	State string
	// Since is when it was made, or a reservation begins; zero: not known.
	Since time.Time
	// Ends is when it ends without any call; zero: never. With is the id of the machine with which it ends, or "".
	Ends time.Time
	With string
	// PowersOff means that a machine powers itself off at Ends, and costs until a call ends it.
	PowersOff bool
	// Free means that it costs nothing as it is.
	Free bool
	// Stays means that it is there on purpose, until its user removes it.
	Stays bool
	// Price is that of an hour by the cloud's price list; nil: not known.
	Price *Price
}
