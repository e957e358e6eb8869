package driver

import (
	"context"

	"github.com/bee-hpc/bee/internal/core"
)

// VMRuntime is what a runtime of virtual machines can beyond Runtime.
type VMRuntime interface {
	// BootConsole returns the last output of the kernel of a machine that Start boots, or
	// has booted, for the container of a StateDir.
	BootConsole(stateDir string) (string, error)
	// Restore brings up what Snapshot.Save has written, halted. The container is
	// the one that was saved: of s only what concerns the host counts.
	Restore(ctx context.Context, s ContainerSpec, dir string) (Container, error)
}

// Guest is the virtual machine around a container.
type Guest interface {
	// ExecInGuest starts a process in the machine itself, as its root.
	ExecInGuest(ctx context.Context, c Command) (Process, error)
	// InGuest returns where the target of one of the container's mounts lies as
	// ExecInGuest's commands see it; "": there is no such mount.
	InGuest(target string) string
	// RDMA returns the RDMA devices of the container that are the machine's own.
	RDMA() []core.RDMADevice
	// Broker returns the broker of bee_0 that the machine's agent runs; nil: there is none.
	Broker() GuestBroker
	// CommandLine returns the program that emulates the machine, with its arguments.
	CommandLine() []string
	// Console returns the last output of the machine's kernel.
	Console() (string, error)
	// Login is the account in the machine of the user outside.
	Login() string
	// Ended returns why a container has ended by itself, for people: the
	// machine's last words.
	Ended() string
	// Snapshot returns the means to save the guest; nil: it uses what is not its own.
	Snapshot() Snapshot
	// VolumeDisk returns the run's volume on a disk of the machine's own; nil: the host
	// has the volume, or another machine.
	VolumeDisk() VolumeDisk
}

// Snapshot saves a guest that holds all that its container uses. It can be halted, saved,
// and brought up on another host, where it continues and notices nothing but a step of
// its clock.
type Snapshot interface {
	// Pause halts the guest; Resume continues it, its clock set. Idempotent.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Save writes all of a halted guest into a directory, which it makes, for
	// VMRuntime.Restore. The guest stays halted, whatever comes of it.
	Save(ctx context.Context, dir string) error
	// StartTask is Exec for the one command that depends on nobody outside:
	// it is saved with the guest. Only its output streams may be set.
	StartTask(ctx context.Context, c Command) (Process, error)
	// Task takes that command over in a guest that was brought up again; c has
	// the output streams. What was written before the guest was saved has gone
	// to those that StartTask was given.
	Task(ctx context.Context, c Command) (Process, error)
	// Put copies what is in a directory on the host into a mount of the
	// container, and leaves what else is there alone.
	Put(ctx context.Context, target, source string) error
	// Get copies what patterns, relative to a mount of the container, match
	// into a directory on the host, likewise. From a halted guest nothing comes:
	// NotFound.
	Get(ctx context.Context, target string, patterns []string, into string) error
}

// VolumeDisk is the run's volume on a disk of a machine, where the host does not see it.
type VolumeDisk interface {
	// Freeze flushes all that was written to the disk, which is whole then; further
	// writes wait until thaw is called.
	Freeze(ctx context.Context) (thaw func(), err error)
	// Full reports whether the volume has been full at any time.
	Full(ctx context.Context) (bool, error)
}

// Peers is what a guest needs to start commands on the others of its run by
// itself.
type Peers struct {
	Rank    int    `json:"rank"`
	Members []Peer `json:"members"` // by rank
	// CA, Cert and Key are PEM; the certificates name Peer.Identity.
	CA   []byte `json:"ca,omitempty"`
	Cert []byte `json:"cert,omitempty"`
	Key  []byte `json:"key,omitempty"`
	// Env and Dir are for commands that name none.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"`
}

// Peer is one guest of a run.
type Peer struct {
	Name     string `json:"name"`
	IP       string `json:"ip"` // in the guests' network; "" where there is none
	Identity string `json:"identity"`
}
