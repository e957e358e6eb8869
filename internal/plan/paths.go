package plan

import (
	"path"
	"strconv"
)

// Files of a run in core.Host.Dir, on every host.

// SocketName is the name of a node's unix socket for launch agents, in the directory
// that its container sees.
const SocketName = "node.sock"

// SocketPath is the node's unix socket for the controller and for `bee exec`, which
// nothing in a container sees.
func SocketPath(dir string, rank int) string {
	return path.Join(NodeDir(dir, rank), "control.sock")
}

// RunDir is the directory that a node's container sees as /.bee/run.
func RunDir(dir string, rank int) string { return path.Join(NodeDir(dir, rank), RunName) }

// RunName is the name of such a directory beside the container's state.
const RunName = "run"

// VerbsSocket is where programs of a node's container reach the broker of bee_0, and
// VerbsLibrary their library.
func VerbsSocket(dir string, rank int) string { return path.Join(NodeDir(dir, rank), "rdma.sock") }

// VerbsLibrary is the library for them.
func VerbsLibrary(dir string, rank int) string { return path.Join(NodeDir(dir, rank), "verbs.so") }

// NodeDir is what one node keeps: its log, its sockets, its container's state.
// Several nodes may share one Dir.
func NodeDir(dir string, rank int) string { return path.Join(dir, "node"+strconv.Itoa(rank)) }

// StagedDir is the name of a directory for what From means.
const StagedDir = "staged"

// VolumeDir holds the run's volume.
func VolumeDir(dir string) string { return path.Join(dir, "volume") }

// VolumeImagePath is the volume as a data image, on node 0's host. While it is
// there the volume is in it, and not in VolumeDir.
func VolumeImagePath(dir string) string { return path.Join(dir, "volume.img") }

// VolumeSourcePath is a data image of the user's, on node 0's host, until what it
// holds is in the volume.
func VolumeSourcePath(dir string) string { return path.Join(dir, "volume.from") }

// InputsDir holds inputs whose target lies outside the volume.
func InputsDir(dir string) string { return path.Join(dir, "inputs") }

// SnapshotDir is a copy of the volume that the head has kept while the job ran,
// or all of the virtual machines.
func SnapshotDir(dir string, n int) string { return path.Join(dir, "snapshots", strconv.Itoa(n)) }

// RestoreDir is where the controller stages saved virtual machines on the head.
func RestoreDir(dir string) string { return path.Join(dir, "restore") }

// SavedFile, in a directory of saved virtual machines, is a Saved in JSON; each
// node's machine is in SavedPart.
const SavedFile = "machines.json"

// SavedPart is the directory of a node's machine among saved ones.
func SavedPart(dir string, rank int) string { return path.Join(dir, "node"+strconv.Itoa(rank)) }

// NodeLogPath is where a node's starter has what the node says of itself, and
// what goes wrong.
func NodeLogPath(dir string, rank int) string { return path.Join(NodeDir(dir, rank), "node.log") }

// NoncePath holds a word that only that node can have written. Who reads it below another
// Host.Dir shares that directory with the node, whatever the file systems are.
func NoncePath(dir string, rank int) string { return path.Join(NodeDir(dir, rank), "nonce") }

// NodeErrorPath is the error by which a node has ended, as a rpc.Failure in JSON.
func NodeErrorPath(dir string, rank int) string { return path.Join(NodeDir(dir, rank), "error.json") }

// ArchivePath is where the controller stages the flattened image on the head,
// when the head's cache does not have it.
func ArchivePath(dir string) string { return path.Join(dir, "image.bee") }

// GuestPath is the same for the guest image of virtual machines.
func GuestPath(dir string) string { return path.Join(dir, "guest.bee") }

// EventsPath is the head's journal: one JSON Event per line.
func EventsPath(dir string) string { return path.Join(dir, "events.jsonl") }

// OutputPath is the task's output: frames as package tasklog writes them.
func OutputPath(dir string) string { return path.Join(dir, "output.log") }

// ResultPath is the Result, present only once the attempt has ended.
func ResultPath(dir string) string { return path.Join(dir, "result.json") }
