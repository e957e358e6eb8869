// Package virtualbox is the provider for guests of VirtualBox: each attempt has a clone of a machine that the
// user has prepared, with emulated or para-virtual devices, which is deleted at its end. All is done by the program
// VBoxManage.
//
// A guest that answers is a host behind ssh, whose provider comes from the catalog (Settings.Reach). The package
// knows nothing of that provider. It was never run with a real VirtualBox: its command lines are held to golden
// files, and its errors to a program that stands in for VBoxManage.
package virtualbox

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Driver is the name of the provider.
const Driver = "virtualbox"

// Devices are those of a guest: its network card and the controller of its disk.
type Devices string

// The devices.
const (
	Virtio   Devices = "virtio"   // para-virtual
	Emulated Devices = "emulated" // an Intel 82540EM and AHCI: full virtualization
)

// Settings of a site of this provider.
type Settings struct {
	Name string
	// Dir is where the site's leases are recorded, with the files of their guests.
	Dir string
	// Machine is the name of this machine, where others share Dir; else "".
	Machine string
	// Base is the machine to clone, by name or UUID, and Snapshot one of its snapshots; "": all of it is copied.
	Base, Snapshot string
	// Devices are the guest's.
	Devices Devices
	// CPUs and Memory, in bytes, are the guest's; 0: those of Base.
	CPUs   int
	Memory int64
	// User is the login user, and HostKey the public key of the sshd in the guest.
	User, HostKey string
	// Boot is how long a guest may take until it answers; 0: five minutes.
	Boot time.Duration
	// Program is VBoxManage; "": that of the PATH.
	Program string
	// Reach returns the provider of a guest that listens.
	Reach func(Connection) (driver.Provider, error)
	// Locks are those of this machine, on which all guests run.
	Locks driver.HostLocks
}

// Connection is how ssh reaches a guest.
type Connection struct {
	User string
	// Port is that of 127.0.0.1 which leads to the guest's sshd.
	Port int
	// KnownHosts is a file with the guest's key, under the name HostAlias.
	KnownHosts string
}

// HostAlias is the name of all guests for ssh: their ports change from one to the next.
const HostAlias = "bee-virtualbox-guest"

// Host returns the guest as ssh understands it.
func (c Connection) Host() string { return c.User + "@127.0.0.1" }

// Options are those by which ssh reaches the guest at its port, and knows it by the key of the site alone.
func (c Connection) Options() map[string]string {
	return map[string]string{
		"Port": fmt.Sprint(c.Port), "HostKeyAlias": HostAlias, "UserKnownHostsFile": `"` + c.KnownHosts + `"`, "GlobalKnownHostsFile": "/dev/null",
		"StrictHostKeyChecking": "yes", "UpdateHostKeys": "no", "CheckHostIP": "no", "ForwardAgent": "no", "ControlPath": "none", "ProxyCommand": "none",
	}
}

const (
	defaultBoot = 5 * time.Minute
	endTime     = time.Minute
	mostCPUs    = 64      // of a guest of VirtualBox, by its manual
	leastMemory = 4 << 20 // the same
	mostMemory  = 2 << 40
	mostKey     = 4 << 10
)

var (
	keyForm  = pattern(`^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,}={0,2}$`)
	uuidForm = pattern(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// New returns the provider of a site.
func New(s Settings) (driver.Provider, error) {
	invalid := func(remedy, format string, a ...any) error {
		return &core.Error{Kind: core.Invalid, Op: "use site", Object: s.Name, Err: fmt.Errorf(format, a...), Remedy: remedy}
	}
	s.Boot, s.Program, s.Devices = cmp.Or(s.Boot, defaultBoot), cmp.Or(s.Program, "VBoxManage"), cmp.Or(s.Devices, Virtio)
	s.HostKey = strings.Join(strings.Fields(s.HostKey)[:min(2, len(strings.Fields(s.HostKey)))], " ") // without its comment
	switch {
	case s.Reach == nil || s.Dir == "":
		return nil, errors.New("a provider of guests needs a directory, and a way to them")
	case s.Base == "":
		return nil, invalid("Add `virtualbox: {machine: …}` to the site.", "it names no machine")
	case s.Devices != Virtio && s.Devices != Emulated:
		return nil, invalid("Write `devices: virtio` or `devices: emulated`.", "%q are no devices", core.Printable(string(s.Devices), 40))
	case !core.IsAccount(s.User):
		return nil, invalid("Check `user:` at the site.", "%q is no name of an account", core.Printable(s.User, 40))
	case len(s.HostKey) > mostKey || !keyForm().MatchString(s.HostKey):
		return nil, invalid("Write at the site, as `host_key:`, what `cat /etc/ssh/ssh_host_ed25519_key.pub` prints in the machine.", "%q is no public key of OpenSSH", core.Printable(s.HostKey, 80))
	case s.CPUs < 0 || s.CPUs > mostCPUs:
		return nil, invalid("", "a guest has 1 to %d cores, expected other than %d", mostCPUs, s.CPUs)
	case s.Memory != 0 && (s.Memory < leastMemory || s.Memory > mostMemory):
		return nil, invalid("", "a guest has %d MiB to %d MiB of memory, expected other than %d bytes", leastMemory>>20, mostMemory>>20, s.Memory)
	case s.Boot < 0:
		return nil, invalid("", "%s is no time to boot", s.Boot)
	}
	return &provider{
		s: s, vbox: program{path: s.Program}, ends: endTime,
		kind: leasedir.Kind{Driver: Driver, Version: driverVersion, Leases: "leases", Machine: s.Machine},
	}, nil
}
