package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// ForeignLeases is that of a site whose leases other machines can continue.
type ForeignLeases interface {
	// Checked returns a handle that another installation has recorded, as the site knows its
	// lease. Invalid: the handle names what is not of this site. NotFound: the site has no
	// such lease.
	Checked(ctx context.Context, h core.Handle) (core.Handle, error)
}

// Adopters is that of a lease whose site records which installation controls its run.
type Adopters interface {
	// Adopt records an installation, unless another one is on record than instead. It returns
	// the one on record, which is zero where there is none. Of two calls at once, one records.
	// Without a name of an installation, only a Ticket is recorded, or nothing.
	Adopt(ctx context.Context, a Adopter, instead string) (Adopter, error)
}

// Adopter is the installation that controls a run.
type Adopter struct {
	// Installation is its id, and Machine the name of its machine, for people.
	Installation string    `json:"installation"`
	Machine      string    `json:"machine"`
	Since        time.Time `json:"since"`
	// Ticket is the digest of the ticket with which others can adopt the run; "": they cannot.
	Ticket string `json:"ticket,omitempty"`
}

// AdoptedElsewhere returns the installation beside own that the site of a lease has on record as
// the one that controls its run. Its zero value: there is none.
func AdoptedElsewhere(ctx context.Context, l Lease, own string) (Adopter, error) {
	as := l.Adopters()
	if as == nil {
		return Adopter{}, nil
	}
	by, err := as.Adopt(ctx, Adopter{}, "")
	if core.IsKind(err, core.NotFound) {
		return Adopter{}, nil
	}
	if err != nil || by.Installation == own {
		return Adopter{}, err
	}
	return by, nil
}

// longestAdopter bounds the texts of an Adopter, in bytes.
const longestAdopter = 256

// Check refuses an adopter that no bee has recorded.
func (a Adopter) Check() error {
	if len(a.Installation) > longestAdopter || len(a.Machine) > longestAdopter || len(a.Ticket) > longestAdopter || !core.IsMoment(a.Since) {
		return &core.Error{Kind: core.Invalid, Op: "check", Object: "the installation that controls a run", Err: fmt.Errorf("no bee has recorded %q", core.Printable(a.Installation+" "+a.Machine, 80)), Remedy: core.RemedyVersions}
	}
	return nil
}
