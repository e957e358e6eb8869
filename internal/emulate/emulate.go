// Package emulate makes hosts out of one machine, without root: each has a
// network stack, a name, an address on a common bridge, shared memory and IPC
// of its own, so that programs of several hosts, partitions and slow links can
// be tried on a laptop and in CI. File systems, processors and process numbers
// are common to all.
//
// One process, the holder, is PID 1 of everything and owns all the namespaces.
// Its end, even by SIGKILL, ends every process, mount, interface and namespace
// with it: the kernel sees to that. It outlives the process that started it, and is
// spoken to over a unix socket.
//
// The package knows nothing of leases, nodes or images: package local, and
// tests of package ssh, run things on the hosts it makes.
package emulate

import (
	"net/netip"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
)

// HolderArg is the first argument that makes the binary a holder: anyone who
// uses this package calls HolderMain for it, before anything else.
const HolderArg = "emulated-hosts"

// Spec says which hosts to make.
type Spec struct {
	// DieWithCaller ends the hosts when the thread that calls Start ends, as
	// a trial wants that must leave nothing: lock the thread until Destroy.
	DieWithCaller bool `json:"-"`
	// Dir is an existing directory, private to the user, on a local file
	// system. The holder's socket, record and log are in it.
	Dir string `json:"dir"`
	// Hosts by index.
	Hosts []HostSpec `json:"hosts"`
	// LinkRate limits each host's link in each direction, in bits per second;
	// 0 means no limit.
	LinkRate int64 `json:"link_rate,omitempty"`
	// LinkDelay would delay each packet, in microseconds. Few kernels built
	// for virtual machines have netem, and then it is an error: see Line.
	LinkDelay int64 `json:"link_delay,omitempty"`
	// Binary is started as the holder; empty means this process's own binary.
	Binary string `json:"-"`
}

// HostSpec is one host to make.
type HostSpec struct {
	// Hostname is a valid host name.
	Hostname string `json:"hostname"`
	// Hide and Keep, if set, leave Keep, a directory in Hide, as the only
	// content of Hide on this host, as on a disk of its own.
	Hide string `json:"hide,omitempty"`
	Keep string `json:"keep,omitempty"`
	// Mounts are directories and files that this host sees in the place of others, as on a disk of
	// its own that has the same paths.
	Mounts []Mount `json:"mounts,omitempty"`
	// Service, if set, is a further address that only this host has, for a service beside it. All ports below 1024 are
	// then open to its processes.
	Service netip.Addr `json:"service,omitzero"`
	// Line, if set, makes it a far host, behind a slow or long line.
	Line *Line `json:"line,omitempty"`
}

// Mount has a host see the directory, or file, Source at the path Target, which is one too.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Host is one host that was made.
type Host struct {
	Hostname string `json:"hostname"`
	// Addr is its IPv4 address.
	Addr string `json:"addr"`
}

// Files in Spec.Dir.
const (
	socketName = "holder.sock"
	recordName = "holder.pid"
	logName    = "holder.log"
)

// LogPath is where the holder of dir writes what goes wrong.
func LogPath(dir string) string { return filepath.Join(dir, logName) }

// Proc is a process that was launched on a host.
type Proc struct {
	// PID is its number among the emulated hosts.
	PID  int    `json:"pid"`
	Host int    `json:"host"`
	Tag  string `json:"tag,omitempty"`
	// Exit is set once it has ended.
	Exit *core.Exit `json:"exit,omitempty"`
}

// Command is a process to start on a host.
type Command struct {
	Host int `json:"host"`
	// Path of the program; empty means Argv[0], looked up in Env's PATH.
	Path string   `json:"path,omitempty"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	// Dir is the working directory; empty means /.
	Dir string `json:"dir,omitempty"`
	// Tag names the process in Procs.
	Tag string `json:"tag,omitempty"`
	// Stdin is given to Launch's process, which then reads the end.
	Stdin []byte `json:"stdin,omitempty"`
	// Log is the file that takes the output of Launch's process; it is
	// appended to.
	Log string `json:"log,omitempty"`
}

// request is what a client sends; descriptors may come with it.
type request struct {
	Op      string   `json:"op"`
	Host    int      `json:"host,omitempty"`
	Up      bool     `json:"up,omitempty"`
	Apart   bool     `json:"apart,omitempty"`
	Addr    string   `json:"addr,omitempty"`
	Command *Command `json:"command,omitempty"`
}

// reply is what the holder answers; a descriptor may come with it.
type reply struct {
	Error string     `json:"error,omitempty"`
	Kind  string     `json:"kind,omitempty"`
	PID   int        `json:"pid,omitempty"`
	Exit  *core.Exit `json:"exit,omitempty"`
	Hosts []Host     `json:"hosts,omitempty"`
	Procs []Proc     `json:"procs,omitempty"`
	// Notes report what the machine does not allow, without which it still works.
	Notes []string `json:"notes,omitempty"`
}

const (
	opHosts  = "hosts"
	opLaunch = "launch"
	opRun    = "run"
	opProcs  = "procs"
	opLink   = "link"
	opApart  = "apart"
	opKill   = "kill"
	opDial   = "dial"
)

func (r reply) err(op string) error {
	if r.Error == "" {
		return nil
	}
	return &core.Error{Kind: core.KindNamed(r.Kind), Op: op, Err: textError(r.Error)}
}

type textError string

func (e textError) Error() string { return string(e) }
