package virtualbox

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Names of a lease's files.
const (
	recordFile = "lease.json"
	knownFile  = "known_hosts"
	guestDir   = "guest" // VirtualBox's files
)

const (
	driverVersion = 1
	mostRecord    = 1 << 20
)

// guest is what VirtualBox calls a clone. It is chosen, and on the disk, before the clone is made.
type guest struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

// ourPrefix begins the names of all guests. Nothing else is ever deleted.
const ourPrefix = "bee-"

// newGuest returns a guest that there is not yet: a UUID of version 4.
func newGuest() guest {
	var raw [16]byte
	rand.Read(raw[:])
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	h := hex.EncodeToString(raw[:])
	return guest{Name: ourPrefix + h[:12], UUID: h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]}
}

// record is what is known of a lease, whole and on the disk before each call that it is about.
type record struct {
	Version int        `json:"version"`
	Owner   core.Owner `json:"owner"`
	Guest   guest      `json:"guest"`
	// Base is the UUID of the machine that the guest is a clone of.
	Base string `json:"base"`
	Port int    `json:"port"`
	User string `json:"user"`
	// Hosts and Inner are of a guest that has answered.
	Hosts []core.Host `json:"hosts,omitempty"`
	Inner core.Handle `json:"inner,omitzero"`
}

// ready reports whether the guest has answered.
func (r *record) ready() bool { return r != nil && len(r.Hosts) > 0 }

// connection returns how ssh reaches the guest.
func (r *record) connection(dir string) Connection {
	return Connection{User: r.User, Port: r.Port, KnownHosts: filepath.Join(dir, knownFile)}
}

// read returns the record of a lease, or nil where there is none yet.
func read(dir string, owner core.Owner) (*record, error) {
	var r record
	found, err := leasedir.ReadRecord(dir, recordFile, mostRecord, &r)
	if !found && err == nil {
		return nil, nil
	}
	if err == nil && (r.Version != driverVersion || r.Owner != owner || !uuidForm().MatchString(r.Guest.UUID) || r.Guest.Name == "") {
		err = fmt.Errorf("it is of version %d, owner %s and guest %q, expected version %d and owner %s", r.Version, r.Owner, core.Printable(r.Guest.UUID, 40), driverVersion, owner)
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Permanent, Op: "read the record of lease", Object: dir, Err: err}
	}
	return &r, nil
}

func (r *record) write(dir string) error { return leasedir.WriteRecord(dir, recordFile, r) }
