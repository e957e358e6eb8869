package driver

import (
	"context"
	"io"
	"time"
)

// MachineImages are the images in the account of a cloud that bee has uploaded there, and that its rented machines boot.
// An installation changes its own ones only.
type MachineImages interface {
	// List returns those of all installations, also what uploads have left that ended in the middle.
	List(ctx context.Context) ([]MachineImage, error)
	// Push uploads a disk, and makes an image of it, which its name means from then on. Where this installation has
	// uploaded the same before, there is no upload, and was is true. What an upload has left that ended in the middle is
	// completed or removed. report gets how much of the disk is there.
	Push(ctx context.Context, d MachineDisk, report func(done, total int64)) (i MachineImage, was bool, err error)
	// Remove removes this installation's images of a name, with what they are made of, and what uploads of that name have
	// left. It returns them, and those of other installations that the name means from then on.
	Remove(ctx context.Context, name string) (removed, others []MachineImage, err error)
	// Clean removes what uploads of this installation have left that ended in the middle, or with dry only returns it.
	// While one is under way, that removes nothing.
	Clean(ctx context.Context, dry bool) ([]MachineImage, error)
}

// MachineDisk is a disk that rented machines boot by UEFI.
type MachineDisk struct {
	Name string
	// Digest is that of its content, "sha256:" and hexadecimal digits.
	Digest string
	// Arch is the GOARCH of its machines, and User their login user.
	Arch, User string
	// Content has Size bytes.
	Content io.ReaderAt
	Size    int64
}

// MachineImage is an image in an account, or what an upload has left of one.
type MachineImage struct {
	// ID is the cloud's id, and Source that of what it is made of, which costs, or "".
	ID, Source string
	// Name, Digest, Arch and User are as in MachineDisk.
	Name, Digest, Arch, User string
	// Size is its size in the cloud in bytes; 0: not known.
	Size int64
	// Installation is whose it is, and Own whether that is this one.
	Installation string
	Own          bool
	// Pushed is when it became the image of its name; zero: it has not.
	Pushed time.Time
	// Whole is whether machines can boot it, and Uploaded whether at least all of its content is there.
	Whole, Uploaded bool
	// State is in the cloud's words.
	State string
}

// Left reports whether it is what an upload has left. An image that became one stays one, though nobody can boot it: an
// administrator may have deactivated it.
func (i MachineImage) Left() bool { return !i.Whole && i.Pushed.IsZero() }
