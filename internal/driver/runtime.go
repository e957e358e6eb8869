package driver

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Runtime runs containers on the host that it is called on: a node uses it,
// never the controller (a container on another host is that host's node's
// business).
type Runtime interface {
	Info() Info
	// Probe finds out by trying, not by looking, whether containers can be
	// run here by this user.
	Probe(ctx context.Context) (Facts, error)
	// Needs reports which form of an image Prepare wants.
	Needs() ImageForm
	// Prepare makes an image ready to start. Idempotent, and safe in many
	// processes at once.
	Prepare(ctx context.Context, i LocalImage) error
	// Start starts a container whose first process is our own init
	// (`/.bee/bee container-init`, see package pid1), ready for Exec. The container
	// ends, with all its processes, when the calling process dies.
	Start(ctx context.Context, s ContainerSpec) (Container, error)
	// VM returns what a runtime of virtual machines can further; nil: it is none.
	VM() VMRuntime
}

// ImageForm is a form in which an image is on a host.
type ImageForm int

const (
	// Tree is an unpacked root file system.
	Tree ImageForm = iota
	// Archive is a docker-archive tar file that `docker load` and
	// `podman load` read.
	Archive
	// FileSystem is a read-only file system that a kernel mounts.
	FileSystem
)

// LocalImage is an image as it is on this host.
type LocalImage struct {
	core.Image
	// Tree is the unpacked root file system, read-only by convention.
	Tree string
	// Archive is the docker-archive file; it carries the tag ArchiveTag.
	Archive    string
	ArchiveTag string
	// FileSystem is the file of an EROFS image, and Config the configuration
	// (JSON) of a Docker image with it as its one layer, for ArchiveTag.
	FileSystem string
	Config     []byte
}

// ContainerSpec describes the one container of a node.
type ContainerSpec struct {
	Owner core.Owner
	// Name is unique on the host and valid as a container name everywhere.
	Name  string
	Image LocalImage
	// Hostname of the container; empty keeps the host's.
	Hostname string
	// Env is the whole environment of the container's init, KEY=VALUE.
	Env []string
	// Root asks for uid 0 inside.
	Root bool
	// User is whom the processes are inside, where Root is not set; nil: the caller,
	// by his own uid and gid. Outside they are the caller's always. Only a runtime
	// with Info.MapsUsers takes it.
	User *core.Account
	// Mounts are bound in, in order.
	Mounts []Mount
	// Dirs are directories, writable inside, that the container has although its image
	// lacks them: no mount's target, nor below one.
	Dirs []string
	// Hosts are further lines for /etc/hosts: address, then names.
	Hosts []string
	// StateDir is an existing directory on the host, private to this
	// container, removed by its maker after Remove.
	StateDir string
	// DiskScratch keeps what the container writes outside its mounts in
	// StateDir instead of memory.
	DiskScratch bool
	// Binary is the bee binary on the host. It appears as /.bee/bee.
	Binary string
	// RunDir is a directory on the host that appears, read-only, as /.bee/run.
	// The node's socket is in it, and init makes its own there.
	RunDir string
	// GPUs is the number of GPUs to pass in; -1 means all.
	GPUs int
	// Devices are device nodes to pass in. A runtime without Info.OwnDevices skips them.
	Devices []Device
	// Seccomp asks for a filter that refuses system calls which no job needs.
	// A runtime that has none says that it is Unsupported.
	Seccomp bool
	// Faults has that filter let programs serve their own page faults (userfaultfd), as
	// bee_0 needs it. Runtimes may skip it.
	Faults bool
	// Unfiltered asks for no filter at all. Where neither is set, a runtime may have one
	// that lets through all that MPI uses.
	Unfiltered bool
	// TimerSlack is how late timers of its processes may be, so that many of them
	// go at once; 0 leaves it to the system. Runtimes may skip it.
	TimerSlack time.Duration
}

// IDs are those of the processes inside, where the caller's are uid and gid.
func (s ContainerSpec) IDs(uid, gid int) (insideUID, insideGID int) {
	switch {
	case s.Root:
		return 0, 0
	case s.User != nil:
		return s.User.UID, s.User.GID
	}
	return uid, gid
}

// Device is a device node of the host, and where it is in a container: below /dev.
type Device struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// SameDevices returns device nodes that have the same paths in a container.
func SameDevices(paths []string) []Device {
	devices := make([]Device, len(paths))
	for i, path := range paths {
		devices[i] = Device{Source: path, Target: path}
	}
	return devices
}

// Mount binds a host directory or file into a container.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Dir, where it is set, is a directory of the site, opened, which was at Source. What
	// the container has is that very one, with all that is mounted below it on the host.
	// With ReadOnly nothing of it can be changed. The caller closes it once Start has
	// returned.
	Dir *os.File `json:"-"`
}

// Container is a running container.
type Container interface {
	// Exec starts a process inside. It runs in a session of its own.
	Exec(ctx context.Context, c Command) (Process, error)
	// Wait returns when the container has ended.
	Wait(ctx context.Context) (core.Exit, error)
	// Stop ends all processes inside (TERM, then KILL after grace) and the
	// container, and undoes what Start did. Idempotent.
	Stop(ctx context.Context, grace time.Duration) error
	// Use returns what its processes have used so far, and use now.
	Use(ctx context.Context) (core.Sample, error)
	// Guest returns the virtual machine around the container; nil: there is none.
	Guest() Guest
	// Memory returns the limit of the container's memory; nil: its runtime has none of
	// BEE's.
	Memory() MemoryLimit
}

// MemoryLimit is the limit of a container's memory by a control group of BEE's, if its
// environment asks for that (core.MemoryVariable).
type MemoryLimit interface {
	// MemoryKills returns how many processes the kernel has killed because the limit was
	// reached.
	MemoryKills() int
	// Unbounded returns why the limit does not hold; nil: it does, or there is none.
	Unbounded() error
}

// Command is a process to start inside a container. It has init's ids: nothing in a
// container has the right to change them.
type Command struct {
	// Args is the argument vector; Args[0] is looked up in Env's PATH.
	Args []string
	// Env is the whole environment, KEY=VALUE.
	Env []string
	// Dir is the working directory inside; created when missing. Empty: "/".
	Dir string
	// Stdin, Stdout and Stderr are handed to the process as they are; nil is
	// /dev/null. The caller closes its own ends.
	Stdin, Stdout, Stderr *os.File
	// Terminal asks for a terminal of that size as all three, which is the process's
	// controlling one and has a path inside; Process.Terminal is its other end. nil: none.
	Terminal *TerminalSize
}

// TerminalSize is the size of a terminal in characters; zero: not known.
type TerminalSize struct{ Rows, Cols uint16 }

// Process is a process started by Exec.
type Process interface {
	// Signal sends to the process's whole group.
	Signal(ctx context.Context, s os.Signal) error
	// Wait returns when the process has ended. A Lost error means that the
	// container went away under it.
	Wait(ctx context.Context) (core.Exit, error)
	// Terminal returns the keys and the screen of the process's terminal, which the
	// caller reads to its end, as the process may wait for that, and closes; nil: its Command asked for none.
	Terminal() Terminal
}

// Terminal is the keys and the screen of a terminal.
type Terminal interface {
	// Read reads what programs write; an error is the end. Write types.
	io.ReadWriteCloser
	Resize(rows, cols uint16) error
}
