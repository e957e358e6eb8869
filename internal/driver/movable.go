package driver

import (
	"context"
)

// Movable is a guest that holds all that its container uses, and so can be
// halted, saved, and brought up on another host, where it goes on and notices
// nothing but a step of its clock.
type Movable interface {
	Guest
	// Pause halts the guest; Resume lets it go on, its clock set. Idempotent.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Save writes all of a halted guest into a directory, which it makes, for
	// Mover.Restore. The guest stays halted, whatever comes of it.
	Save(ctx context.Context, dir string) error
	// StartTask is Exec for the one command that depends on nobody outside:
	// it is saved with the guest. Only its output streams may be set.
	StartTask(ctx context.Context, c Command) (Process, error)
	// Task takes that command over in a guest that was brought up again; c has
	// the output streams. What was written before the guest was saved has gone
	// to those that StartTask was given.
	Task(ctx context.Context, c Command) (Process, error)
	// Put copies what lies in a directory on the host into a mount of the
	// container, and leaves what else is there alone.
	Put(ctx context.Context, target, source string) error
	// Get copies what patterns, relative to a mount of the container, match
	// into a directory on the host, likewise. From a halted guest nothing comes:
	// NotFound.
	Get(ctx context.Context, target string, patterns []string, into string) error
}

// Mover is a runtime whose containers may be Movable.
type Mover interface {
	Runtime
	// Restore brings up what Movable.Save has written, halted. The container is
	// the one that was saved: of s only what concerns the host counts.
	Restore(ctx context.Context, s ContainerSpec, dir string) (Movable, error)
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
