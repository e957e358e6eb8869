// Package api holds what a host and the BEE process in its guest send each
// other: the configuration that a guest boots with, and the calls over the
// virtio-serial ports between them. It is data only.
package api

import (
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Command is the first argument of the guest's first process.
const Command = "guest"

// A guest that is only to show that its kernel gets that far is given Probe
// as a further argument, and says Alive on its console.
const (
	Probe = "probe"
	Alive = "bee: user space reached"
)

// GuestBinary is where BEE is in a running guest. With SSHD as its further
// argument it serves one connection of ssh on its standard streams, of which the
// first line is SSHKeys.
const (
	GuestBinary = "/run/bee/bee"
	SSHD        = "sshd"
)

// SSHKeys are the guest's own private key, and the public one that opens it.
type SSHKeys struct {
	Host       string `json:"host"`
	Authorized string `json:"authorized"`
}

// Ready is what a guest that is to be a template says on its console when docker
// answers and has run a container: nobody has spoken with it yet, so that no session is saved with it.
const Ready = "bee: docker answers"

// Greeting is what a guest says first on a port, each time that it opens it: at
// the start, and after the host's end has gone, as when the guest was brought up
// elsewhere. What comes before it is of no use to anyone.
const Greeting = "\xbe\xe0bee guest here\n"

// HeldDir is where, in the guest, lies what would else be shared by the host.
const HeldDir = "/mnt/held"

// Names of the virtio-serial ports.
const (
	// NodePort leads to the process that runs containers, as the user whose
	// files they use.
	NodePort = "bee.node"
	// RootPort leads to the guest's root, for people and for snapshots.
	RootPort = "bee.root"
)

// Serial numbers of the guest's disks, by which it finds them.
const (
	RootDisk    = "bee-root"
	ScratchDisk = "bee-scratch"
	ImageDisk   = "bee-image"
	DataDisk    = "bee-data"
)

// Partitions of a disk that a machine boots by its own firmware, by which its first process
// finds them.
const (
	RootPartition = "bee-root"
	DataPartition = "bee-data"
)

// BareTree is where the image is in a guest without docker.
const BareTree = "/mnt/image"

// ExtraDisk is the serial number of the i-th disk that the job asks for.
func ExtraDisk(i int) string { return "bee-disk" + strconv.Itoa(i) }

// Names in the initial RAM file system.
const (
	BinaryPath  = "bee"
	ConfigPath  = "bee.json"
	ModulesPath = "modules"
)

// Config is what a guest boots with.
type Config struct {
	// Template makes a guest of no run yet, which learns by CallAdopt what it
	// is to be. Of the rest it has UID, GID, User, Bridge and Env.
	Template bool `json:"template,omitempty"`
	// Machine is a guest that no host of ours prepares: a machine that boots a disk of ours by its
	// own firmware, and learns from its cloud what it is to be.
	Machine  bool   `json:"machine,omitempty"`
	Hostname string `json:"hostname"`
	// UID, GID and User are those of the user outside, to whom what
	// containers write shall belong.
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	User string `json:"user"`
	// Shares are directories of the host.
	Shares []Share `json:"shares,omitempty"`
	// Holds makes HeldDir, on the guest's own disk.
	Holds bool `json:"holds,omitempty"`
	// Volume is one that is no share; nil: there is none.
	Volume *Volume `json:"volume,omitempty"`
	// Fabric is the network between the guests; nil: there is none.
	Fabric *Interface `json:"fabric,omitempty"`
	// Hosts are lines of /etc/hosts.
	Hosts []string `json:"hosts,omitempty"`
	// Disks are further disks.
	Disks []Disk `json:"disks,omitempty"`
	// Image is the image on ImageDisk; nil: there is none.
	Image *Image `json:"image,omitempty"`
	// Bridge gives containers that ask for it docker's own network.
	Bridge bool `json:"bridge,omitempty"`
	// Bare starts the image's programs in the guest itself: it has no docker, and the image
	// is in BareTree.
	Bare bool `json:"bare,omitempty"`
	// Emulated: its network cards are emulated hardware.
	Emulated bool `json:"emulated,omitempty"`
	// RDMA is SoftRDMA, CardRDMA or "": its programs have no RDMA device.
	RDMA string `json:"rdma,omitempty"`
	// Pool is memory that the guest shares with others of its host.
	Pool bool `json:"pool,omitempty"`
	// Env is what dockerd and people in the guest have in their environment (proxies),
	// as the host has it.
	Env []string `json:"env,omitempty"`
}

// PoolDevice is that memory, as a device to map. It belongs to the user.
const PoolDevice = "/dev/dax0.0"

// Words of Config.RDMA.
const (
	SoftRDMA = "soft" // the kernel's software device, over the network between the guests
	CardRDMA = "card" // the function of a card
)

// Share is a directory of the host in the guest.
type Share struct {
	Tag      string `json:"tag"`
	Target   string `json:"target"`
	Type     string `json:"type"` // of the file system: 9p or virtiofs
	Options  string `json:"options,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Disk is a disk of the job's, mounted in the guest. An empty one gets a file
// system that belongs to the user; any other is only read.
type Disk struct {
	Serial string `json:"serial"`
	Target string `json:"target"`
	Empty  bool   `json:"empty,omitempty"`
}

// VolumePath is where Config.Volume is in the guest.
const VolumePath = "/mnt/volume"

// Volume is a data image, on DataDisk in one guest and by NFS in all others.
type Volume struct {
	// Server is the address of the guest that has it; "": it is this one.
	Server string `json:"server,omitempty"`
	// Clients is the network whose guests this one serves, "" for none.
	Clients string `json:"clients,omitempty"`
}

// VolumeState is how it stands with a volume.
type VolumeState struct {
	// Size and LeastFree are bytes: of the whole, and the least that was free
	// at any time; LeastFiles is how many more files it could hold then. They
	// are known where the disk is.
	Size       int64 `json:"size"`
	LeastFree  int64 `json:"least_free"`
	LeastFiles int64 `json:"least_files"`
	// Silent is for how long the guest that has it was not reached.
	Silent time.Duration `json:"silent"`
}

// Image is a Docker image whose one layer is a file system.
type Image struct {
	Tag    string `json:"tag"`
	Config []byte `json:"config"`
	// User is whom the image names where that counts: docker has the image a second
	// time then, by UserTag, with that one's files as the caller's. nil: nobody.
	User *core.Account `json:"user,omitempty"`
}

// UserTag is the tag of the job's image for processes that are its USER inside.
func UserTag(tag string) string { return tag + "-user" }

// Interface is the guest's place in the fabric.
type Interface struct {
	// Name it is to have; empty: the kernel's stays.
	Name    string `json:"name,omitempty"`
	MAC     string `json:"mac"`
	Address string `json:"address"` // with prefix length
	MTU     int    `json:"mtu"`
}

// TaskOutput is what the command has written, and how it ended.
type TaskOutput struct {
	Pieces []Piece `json:"pieces,omitempty"`
	// Exit comes when there is nothing more.
	Exit *core.Exit `json:"exit,omitempty"`
}

// Piece is something written at once, to standard output or error.
type Piece struct {
	Error bool   `json:"error,omitempty"`
	Data  []byte `json:"data"`
}

// ClockRequest sets the guest's clock. Seed is fed to its random numbers: guests
// brought up twice shall not draw the same. CounterKHz is the frequency of the host's
// counter where an emulated guest has that, else 0.
type ClockRequest struct {
	Now        time.Time `json:"now"`
	Seed       []byte    `json:"seed,omitempty"`
	CounterKHz int64     `json:"counter_khz,omitempty"`
}

// AdoptRequest makes a guest from a template one of a run.
type AdoptRequest struct {
	Config Config       `json:"config"`
	Clock  ClockRequest `json:"clock"`
}

// PutRequest names the directory of the guest that files are for. They follow, and then
// an rpc.Failure from the guest.
type PutRequest struct {
	Dir string `json:"dir"`
}

// GetReply counts what matches.
type GetReply struct {
	Files int `json:"files"`
}

// TaskOutputRequest asks for the output of the job's command from a byte on.
type TaskOutputRequest struct {
	From int64 `json:"from"`
}

// TaskSignalRequest sends a signal to the job's command.
type TaskSignalRequest struct {
	Number int `json:"number"`
}

// GetRequest asks for files below a directory of the guest: what some patterns,
// relative to it, match.
type GetRequest struct {
	Dir      string   `json:"dir"`
	Patterns []string `json:"patterns"`
	// Seen is where containers have the directory, and absolute links into it begin.
	Seen string `json:"seen,omitempty"`
}

// Hello is a guest's word that it is up. Times count from the kernel's start.
type Hello struct {
	Kernel string        `json:"kernel"`
	Init   time.Duration `json:"init"`   // BEE's first process ran
	Root   time.Duration `json:"root"`   // the root file system was there
	Docker time.Duration `json:"docker"` // dockerd answered
}

// StartRequest asks for the container.
type StartRequest struct {
	// Spec has paths of the guest. StateDir, RunDir and Binary are the
	// guest's own to choose.
	Spec driver.ContainerSpec `json:"spec"`
	// Files are what is in the node's run directory.
	Files map[string][]byte `json:"files,omitempty"`
	// Peers is set where the guest shall start commands on other hosts by
	// itself, without the nodes outside.
	Peers *driver.Peers `json:"peers,omitempty"`
	// RDMA passes the guest's RDMA devices in.
	RDMA bool `json:"rdma,omitempty"`
	// Broker has the agent run a broker of bee_0 for the container; nil: it has no such device.
	Broker *driver.BrokerOptions `json:"broker,omitempty"`
}

// BrokerRequest is about the broker of another node of the run.
type BrokerRequest struct {
	Rank int `json:"rank"`
}

// Devices are those that the container has of its guest.
type Devices struct {
	RDMA []core.RDMADevice `json:"rdma,omitempty"`
}

// PeerPort is where a guest listens for the others, on its address in the
// fabric. No program is given that port unless it asks for it.
const PeerPort = 61732

// ExecRequest asks for a process in the container; on RootPort in the guest.
type ExecRequest struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir,omitempty"`
	TTY  bool     `json:"tty,omitempty"`
	Rows uint16   `json:"rows,omitempty"`
	Cols uint16   `json:"cols,omitempty"`
}

// ExecReply reports whether the process was started.
type ExecReply struct {
	// Code is 126 or 127 where it was not, and Message why.
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// StopRequest asks for the container's end.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
}
