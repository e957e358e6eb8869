// Package plan holds the data that controller and nodes of an attempt exchange: the
// configuration of a node, the plan that the head executes, and its events and result. It
// is data only, so that control need not know how a node works.
package plan

import (
	"errors"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Version of the configuration and the wire calls. A node refuses another.
const Version = 2

// Config is what a node reads from its standard input, as JSON.
type Config struct {
	Version int        `json:"version"`
	Owner   core.Owner `json:"owner"`
	Rank    int        `json:"rank"`
	Size    int        `json:"size"`
	Host    core.Host  `json:"host"`
	// Head is the head's addresses (ip:port), best first; empty on the head.
	Head []string `json:"head,omitempty"`
	// Shared is a wire.Key, made for this attempt alone, by which controller and node
	// prove to each other what they are.
	Shared []byte `json:"shared"`
	// CA, Cert and Key are PEM; made for this run alone. Cert names the node
	// as NodeName(Rank).
	CA   []byte `json:"ca"`
	Cert []byte `json:"cert"`
	Key  []byte `json:"key"`
	// Runtime is a runtime's name, or auto.
	Runtime string `json:"runtime"`
	// Network is an interface name or CIDR that the nodes shall use, or "".
	Network string `json:"network,omitempty"`
	// TryRuntime has the node find out whether it can run containers, and say
	// so when it joins.
	TryRuntime bool `json:"try_runtime,omitempty"`
	// TryRings has the node find out whether its guest's network device can be the
	// switch's, and say so when it joins.
	TryRings bool `json:"try_rings,omitempty"`
	// OwnMounts has the node mount the run's volume in namespaces of its own, where an ordinary user can.
	OwnMounts bool `json:"own_mounts,omitempty"`
	// Plan is set on the head only.
	Plan *Plan `json:"plan,omitempty"`
	// BucketKeys are the user's credentials for the remote of the burst buffer; nil: none were sent. The head alone has
	// them, in memory. They are in no plan and no launch spec, as these are stored on disks.
	BucketKeys *core.BucketKeys `json:"bucket_keys,omitempty"`
	// PerHost is how many nodes a host has at most, one for each of its virtual
	// machines, ranked host by host; 0 means one. Siblings are the others of
	// this host, which the same process runs; beside the head they have no Head.
	PerHost  int      `json:"per_host,omitempty"`
	Siblings []Config `json:"siblings,omitempty"`
}

// ControllerName is the controller's name for Config.Shared, where a node's is NodeName.
const ControllerName = "controller"

// NodeName is the name in a node's certificate.
func NodeName(rank int) string { return "node-" + strconv.Itoa(rank) }

// Plan is an attempt as the head carries it out, with the submitting machine
// present or not.
type Plan struct {
	Job string `json:"job"` // the job's name
	// Names are the hosts' names by rank.
	Names []string   `json:"names"`
	Image core.Image `json:"image"`
	// VM is set where virtual machines shall stand between hosts and
	// containers.
	VM *VM `json:"vm,omitempty"`
	// Slots is mpirun's slots per host; 0 means each host's own cores.
	Slots int `json:"slots"`
	// Cores is how many cores of its host the processes of each container may use; 0: all.
	Cores int `json:"cores,omitempty"`
	// Memory is what the processes of each container may use, in bytes; 0: all.
	Memory int64 `json:"memory,omitempty"`
	// Env is the Beefile's env; Secrets likewise, but never written anywhere.
	Env     map[string]string `json:"env,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty"`
	// Volume is the shared directory's path in the containers. Its source is
	// VolumeDir(Host.Dir) on every host; where hosts share no file system the
	// head copies its own to the others before Run.
	Volume string `json:"volume"`
	// Burst has the volume be a burst buffer, and VolumeDir what is staged into it and what
	// is collected of it.
	Burst *Burst `json:"burst,omitempty"`
	// Binds maps further container paths to directories below InputsDir(Host.Dir).
	Binds map[string]string `json:"binds,omitempty"`
	// Mounts are directories of the site, which every host has at the same paths.
	Mounts []Mount `json:"mounts,omitempty"`
	// Workdir inside; "" means the image's, or the volume where that is empty or /.
	Workdir string `json:"workdir,omitempty"`
	// Setup is nil where there is none, or it was done in an earlier attempt.
	Setup []string `json:"setup,omitempty"`
	// Run is the whole argument vector, entrypoint included.
	Run []string `json:"run"`
	// Cases are those of a pack, which the head runs in place of Run: each in a container, and
	// in a directory of the volume, of its own. Of those, so many run at the same time as
	// CaseCores and CaseMemory allow, and at most CaseAtOnce.
	Pack       bool   `json:"pack,omitempty"` // the task is that, also if no case is left
	Cases      []Case `json:"cases,omitempty"`
	CaseCores  int    `json:"case_cores,omitempty"`   // 0: one
	CaseMemory int64  `json:"case_memory,omitempty"`  // in bytes; 0: not limited
	CaseAtOnce int    `json:"case_at_once,omitempty"` // 0: not limited
	// CaseStopAt is with how many failed ones of Cases no more of them begin; 0: never.
	CaseStopAt int `json:"case_stop_at,omitempty"`
	// Input has Run read what the controller passes. With Terminal it is on a terminal.
	Input    bool      `json:"input,omitempty"`
	Terminal *Terminal `json:"terminal,omitempty"`
	// Post runs when Run has ended with code 0, once VolumeDir has the files of all hosts.
	Post []string `json:"post,omitempty"`
	// SharedVolume ends the attempt, as Unsupported, where the hosts share no volume.
	SharedVolume bool `json:"shared_volume,omitempty"`
	// InGuest has Run be a command of the root of node 0's guest, beside the docker
	// that is there, with the guest's own environment and in its directory of the
	// volume. The container runs on, and does nothing.
	InGuest bool `json:"in_guest,omitempty"`
	// Restore has the machines brought up that were saved in RestoreDir.
	Restore bool `json:"restore,omitempty"`
	// Checkpoint is set where the run can continue in another attempt.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Progress and Metrics are patterns that numbers in the output of the job match.
	Progress string            `json:"progress,omitempty"`
	Metrics  map[string]string `json:"metrics,omitempty"`
	// ProgressProgram is the program whose progress is read in place of a pattern, and ProgressTotal
	// its total; 0: it is read.
	ProgressProgram string  `json:"progress_program,omitempty"`
	ProgressTotal   float64 `json:"progress_total,omitempty"`
	// ProgressFile is a path in the volume of a file that has the progress; "": none has.
	ProgressFile string `json:"progress_file,omitempty"`
	// Sample is how often the head asks what its nodes use; 0: never.
	Sample time.Duration `json:"sample,omitempty"`
	// Outputs are the globs (container paths below Volume or Binds) whose
	// matches the head lists in Result.Outputs, however the attempt ends.
	Outputs []string `json:"outputs,omitempty"`
	Root    bool     `json:"root,omitempty"`
	// CallerIDs has processes have the caller's ids inside, whatever USER of the image.
	CallerIDs bool `json:"caller_ids,omitempty"`
	GPUs      int  `json:"gpus,omitempty"`
	// RDMA is RDMAHost, RDMABee, RDMASoft or RDMANone; others: the host's devices, where it
	// has some.
	RDMA string `json:"rdma,omitempty"`
	// RDMAMemory and RDMAQPs bound bee_0 in each container, in bytes and queue pairs; 0: the
	// default.
	RDMAMemory int64 `json:"rdma_memory,omitempty"`
	RDMAQPs    int   `json:"rdma_qps,omitempty"`
	// RDMAPath is how the bee_0 of containers or guests of one host exchange data: RDMADirect or
	// RDMAForward. "": what is usual, which is RDMADirect for containers and RDMAForward for guests.
	RDMAPath string `json:"rdma_path,omitempty"`
	// RDMADomain joins bee_0 with those of other runs on the host; "": none.
	RDMADomain string `json:"rdma_domain,omitempty"`
	// PCI is the address of a function of a card on each host that its guest has; "": none.
	PCI         string `json:"pci,omitempty"`
	DiskScratch bool   `json:"disk_scratch,omitempty"`
	Seccomp     bool   `json:"seccomp,omitempty"`
	Unfiltered  bool   `json:"unfiltered,omitempty"`
	// Deadline is when the site takes its hosts back, by its own clock; zero:
	// it has reported nothing.
	Deadline time.Time `json:"deadline,omitzero"`
	// Slot is what is left of the time that the user grants: a span, as the
	// hosts' clocks need not agree with the controller's. 0: no such limit.
	Slot time.Duration `json:"slot,omitempty"`
	// Timeout bounds setup and run together; 0 means no limit.
	Timeout time.Duration `json:"timeout,omitempty"`
	Grace   time.Duration `json:"grace"` // between TERM and KILL
	// JoinTimeout bounds the wait for all nodes.
	JoinTimeout time.Duration `json:"join_timeout"`
}

// Case is one of a pack.
type Case struct {
	Number int `json:"number"` // in its array, from 1
	// Env and Workdir are in place of the plan's.
	Env     map[string]string `json:"env,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
	// Steps are run one after the other, as long as each ends with code 0. The case has the
	// exit code of the last one.
	Steps [][]string `json:"steps"`
	// Command is the index in Steps of the run command, which alone writes checkpoints. Resume
	// begins with it.
	Command int `json:"command,omitempty"`
	// Saves means that the case writes a checkpoint of its own when it is asked to.
	Saves bool `json:"saves,omitempty"`
	// Resume is in place of Steps where the case continues from its own checkpoint.
	Resume [][]string `json:"resume,omitempty"`
}

// CaseDir is the volume of a case, in the volume of its pack.
func CaseDir(number int) string { return "case-" + strconv.Itoa(number) }

// CasesFile, in the volume of a pack, has a CaseEnd in JSON in each line: what a further
// attempt does not run again.
const CasesFile = ".bee-cases.jsonl"

// Burst is a burst buffer on the head's host.
type Burst struct {
	// Remote is where it is drained to, as in the Beefile.
	Remote string `json:"remote"`
	// Records is the directory on the host of the records of its volumes; "": one of the site's own, in SiteBursts.
	Records string `json:"records,omitempty"`
	// Credentials is where those for a bucket come from, as in the Beefile.
	Credentials string `json:"credentials,omitempty"`
	// Mark is a file that the submitting machine has made in the remote, where that is a directory: a host that
	// lacks it has another directory there.
	Mark    string `json:"mark,omitempty"`
	Disk    int64  `json:"disk,omitempty"` // bytes; 0: as fits
	Rate    int64  `json:"rate,omitempty"` // bytes per second; 0: no bound
	Protect bool   `json:"protect,omitempty"`
	// Prefetch are patterns of files in the volume to fetch while the job starts.
	Prefetch []string `json:"prefetch,omitempty"`
	// Again has the checkpoints of a run stay whose command has failed: it is tried again from there.
	Again bool `json:"again,omitempty"`
	// Checkpoints has the remote keep checkpoints of the run, to which the names belong that Globs match, in
	// the volume. Number is the one from which it continues; 0: it begins. The head sets these.
	Checkpoints bool `json:"-"`
	// Shared has other hosts mount it, too. The head sets that.
	Shared bool `json:"-"`
	// Alone is whether nobody manages the records. The node sets that.
	Alone  bool     `json:"-"`
	Globs  []string `json:"-"`
	Number int      `json:"-"`
}

// SiteBursts is where a site has burst buffers, beside the directories of runs: a directory for each host.
const SiteBursts = ".burst"

// A checkpoint of a run with a burst buffer is the directory BurstDir, with these records.
const (
	BurstDir = ".bee-checkpoint"
	// BurstRecord is a BurstCheckpoint.
	BurstRecord = BurstDir + "/checkpoint.json"
	// BurstFiles lists the files of `checkpoint.paths`, so that they can be compared.
	BurstFiles = BurstDir + "/files"
)

// BurstCheckpoint is the record of a checkpoint that the remote of a burst buffer has.
type BurstCheckpoint struct {
	Remote string `json:"remote"`
	Number int    `json:"number"`
}

// Terminal is what a terminal is at first.
type Terminal struct {
	Type string `json:"type,omitempty"` // the variable TERM
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
}

// Begin fixes the deadline on the head, by its clock.
func (p *Plan) Begin(now time.Time) {
	if own := now.Add(p.Slot); p.Slot > 0 && (p.Deadline.IsZero() || own.Before(p.Deadline)) {
		p.Deadline = own
	}
}

// SavesVM reports whether the virtual machines are saved, and not the task by
// itself.
func (p *Plan) SavesVM() bool { return p.VM != nil && p.Checkpoint != nil && p.Checkpoint.VM }

// NothingToSave refuses to save a run that has no virtual machines of that kind.
func NothingToSave() error {
	return &core.Error{
		Kind: core.Unsupported, Op: "save virtual machines", Err: errors.New("they use directories of their hosts, or there are none"),
		Remedy: "Give the Beefile `vm:` and `checkpoint: {mode: vm}`.",
	}
}

// HoldsVolume reports whether each of the virtual machines has a volume of its own, on
// its disk, as they are saved and share none.
func (p *Plan) HoldsVolume() bool { return p.SavesVM() && p.VM.Volume != VolumeImage }

// UsesDataImage reports whether the volume is a data image.
func (p *Plan) UsesDataImage() bool { return p.VM != nil && p.VM.Volume == VolumeImage }

// BurstAgain reports whether a run with a burst buffer is tried again when its command fails.
func (p *Plan) BurstAgain() bool { return p.Burst != nil && p.Burst.Again }

// InVolume gives a path of a container as one below the volume, where it is.
func (p *Plan) InVolume(path string) (rel string, is bool) {
	return strings.CutPrefix(path, strings.TrimSuffix(p.Volume, "/")+"/")
}

// OnHost gives where a path of a container is on the head's host, whose
// core.Host.Dir is dir: below root, which may be it. Empty: on no host.
func (p *Plan) OnHost(dir, inside string) (root, rel string) {
	if inside == p.Volume {
		return VolumeDir(dir), ""
	}
	if rel, ok := p.InVolume(inside); ok {
		return VolumeDir(dir), rel
	}
	innermost := ""
	for target, source := range p.Binds {
		below, ok := strings.CutPrefix(inside+"/", strings.TrimSuffix(target, "/")+"/")
		if ok && len(target) > len(innermost) {
			innermost, root, rel = target, path.Join(InputsDir(dir), source), strings.TrimSuffix(below, "/")
		}
	}
	return root, rel
}

// Mount is a directory of the site that the containers have where it lies.
type Mount struct {
	From  string `json:"from"` // absolute path on the hosts
	To    string `json:"to"`   // in the containers
	Write bool   `json:"write,omitempty"`
}

// Checkpoint is how the task is asked to write its checkpoint before the deadline.
type Checkpoint struct {
	// VM has the virtual machines saved in its place.
	VM     bool          `json:"vm,omitempty"`
	Signal int           `json:"signal"`
	Grace  time.Duration `json:"grace"`
	// Margin is how long before the deadline it is asked; never less than
	// Grace and the plan's own. In a time that turns out to be short it may come
	// down to Least, which is that of a job of which no checkpoint is known.
	Margin time.Duration `json:"margin,omitempty"`
	Least  time.Duration `json:"least,omitempty"`
	// File, in the volume, or Command ask for it in place of Signal, if set.
	File    string   `json:"file,omitempty"`
	Command []string `json:"command,omitempty"`
	// Every is how often a copy is kept while the job runs; 0: never.
	Every time.Duration `json:"every,omitempty"`
	// Paths are container paths or patterns; none: the whole volume.
	Paths []string `json:"paths,omitempty"`
}

// ContinueCode is the exit code by which a task asks to be run again, from its
// checkpoint.
const ContinueCode = 85

// VM is the virtual machine of each host, as the Beefile has it (spec.VM).
type VM struct {
	// Guest is the guest image, a tree of the image cache.
	Guest core.Image `json:"guest"`
	// OnDemand has machines only where some host can run no container.
	OnDemand bool   `json:"on_demand,omitempty"`
	CPUs     int    `json:"cpus,omitempty"` // 0: the host's cores
	Sockets  int    `json:"sockets,omitempty"`
	Threads  int    `json:"threads,omitempty"`
	Memory   int64  `json:"memory,omitempty"` // bytes; 0: three quarters of what is free
	Disk     int64  `json:"disk,omitempty"`   // bytes
	CPU      string `json:"cpu,omitempty"`
	Accel    string `json:"accel,omitempty"`
	Fabric   string `json:"fabric,omitempty"`
	NIC      string `json:"nic,omitempty"` // how guests are attached to it: see package fabric; "": by rings where all hosts can
	// Encryption of links: EncryptionNone, or by TLS.
	Encryption string `json:"encryption,omitempty"`
	// Emulated has devices that QEMU emulates as hardware in place of virtio's.
	Emulated bool `json:"emulated,omitempty"`
	// Share is how guests have directories of their hosts: ShareVirtiofs, or 9p.
	Share  string `json:"share,omitempty"`
	MTU    int    `json:"mtu,omitempty"`
	Bridge bool   `json:"bridge,omitempty"`
	// Bare starts the image's programs in the guest itself, as root, in place of a container.
	Bare bool `json:"bare,omitempty"`
	// HugePages backs the guest's memory.
	HugePages bool `json:"huge_pages,omitempty"`
	// Pin binds the guest's processors to the host's.
	Pin   bool     `json:"pin,omitempty"`
	Disks []VMDisk `json:"disks,omitempty"`
	// Volume is how guests have the volume: VolumeHosts, VolumeImage, or
	// VolumeAuto as long as the head has not found out which.
	Volume string `json:"volume,omitempty"`
	// VolumeSize is the most that VolumeImage can hold, in bytes; 0: as it fits.
	VolumeSize int64 `json:"volume_size,omitempty"`
	// VolumeFrom is the digest of what a data image of the user's holds, which lies
	// in VolumeSourcePath and goes into the volume; "": there is none.
	VolumeFrom string `json:"volume_from,omitempty"`
}

// Topology is that of a guest's processors on a host with some cores for it: as the
// Beefile says, else with all of these that make whole sockets.
func (v VM) Topology(cores int) (sockets, each, threads int) {
	if v.CPUs > 0 {
		cores = v.CPUs
	}
	sockets, threads = max(v.Sockets, 1), max(v.Threads, 1)
	return sockets, max(cores/(sockets*threads), 1), threads
}

// VMDisk is a disk of each guest: empty, or an image on the host.
type VMDisk struct {
	Size int64  `json:"size,omitempty"` // bytes
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

// Words of VM.Volume, as in the Beefile.
const (
	VolumeAuto  = "auto"
	VolumeHosts = "virtio"    // each host's own VolumeDir
	VolumeImage = "dataimage" // a disk of node 0's guest, which the others mount from it
)

// Words of Plan.RDMA, as in the Beefile.
const (
	RDMAHost = "host" // whose devices have to be usable
	RDMABee  = "bee"  // BEE's own, bee_0
	RDMASoft = "soft" // the software device of the guests' kernel
	RDMANone = "none"
)

// Words of Plan.RDMAPath, as in the Beefile.
const (
	RDMADirect  = "direct"  // they share memory
	RDMAForward = "forward" // each has a broker of its own
)

// ShareVirtiofs is the word of VM.Share for virtiofs.
const ShareVirtiofs = "virtiofs"

// EncryptionNone is the word of VM.Encryption for links in clear.
const EncryptionNone = "none"

// Saved describes machines that were saved together.
type Saved struct {
	Run   string     `json:"run"`
	Nodes int        `json:"nodes"`
	Guest core.Image `json:"guest"`
	Image core.Image `json:"image"`
	NIC   string     `json:"nic,omitempty"` // as in VM; "": it was not noted
}
