// Package spec holds the two files that users write, the Beefile (a job) and
// the sites file, with their parser, checks, JSON Schema and the conversion of
// the original BEE launcher's JSON. It knows nothing of how a job is run.
package spec

import "time"

// Job is a checked Beefile with its defaults filled in.
type Job struct {
	// Name of the job; default: the Beefile's base name.
	Name string `yaml:"name"`
	// Labels are the user's own words by which runs are found again.
	Labels map[string]string `yaml:"labels" json:",omitempty"`
	// Image is an image reference, or oci:DIR, docker-archive:FILE, sif:FILE,
	// docker-daemon:NAME, podman:NAME. Exactly one of Image and Build is set.
	Image string `yaml:"image"`
	Build *Build `yaml:"build"`
	// Platform such as linux/arm64; default: that of the site's hosts.
	Platform string `yaml:"platform"`
	// Nodes is the number of hosts, at least 1.
	Nodes int `yaml:"nodes"`
	// RanksPerNode is the number of slots that mpirun sees on each host;
	// 0 means Cores, else the host's cores.
	RanksPerNode int `yaml:"ranks_per_node"`
	// Cores and Memory are those of each node; 0: not known.
	Cores  int  `yaml:"cores" json:",omitempty"`
	Memory Size `yaml:"memory" json:",omitempty"`
	// Time is how long an attempt may take, where the site's slot is not shorter; 0: the
	// site's slot. Queues are asked for no more.
	Time time.Duration     `yaml:"time" json:",omitempty"`
	Env  map[string]string `yaml:"env"`
	// Secrets by environment variable name. They reach the containers only
	// in memory and are never written to logs or records.
	Secrets map[string]Secret `yaml:"secrets"`
	Inputs  []Input           `yaml:"inputs"`
	// Mounts are directories of the site that the containers have where they lie.
	Mounts []Mount `yaml:"mounts" json:",omitempty"`
	Volume Volume  `yaml:"volume"`
	// Workdir defaults to the image's WORKDIR, or to the volume where that is empty or /.
	Workdir string `yaml:"workdir"`
	// Entrypoint overrides the image's; an empty list (not absent) clears it.
	Entrypoint *Command `yaml:"entrypoint"`
	// Setup runs once, on node 0, before the first attempt's Run.
	Setup *Command `yaml:"setup"`
	// Run is the user's command on node 0; absent: the image's own CMD.
	Run *Command `yaml:"run"`
	// Post runs once, on node 0, when Run has ended with code 0 and node 0 has the files
	// of all hosts.
	Post    *Command `yaml:"post"`
	Outputs []Output `yaml:"outputs"`
	// Checkpoint lets the run end an attempt before its time slot does, and
	// continue in another; nil: an attempt ends with its slot, and so the run.
	Checkpoint *Checkpoint `yaml:"checkpoint"`
	// Store is where checkpoints are kept: a directory, HOST:DIR behind ssh, or
	// s3://BUCKET/PREFIX; default: that of the sites file, else the state
	// directory of the machine that submits.
	Store string `yaml:"store"`
	// Resume is the command of attempts that continue from a checkpoint; absent:
	// Run.
	Resume *Command `yaml:"resume"`
	// GPUs per node.
	GPUs GPUs `yaml:"gpus"`
	// RDMA is which RDMA devices the containers have.
	RDMA RDMA `yaml:"rdma" json:",omitzero"`
	// Runtime: auto (default), rootless, docker, podman, apptainer, charliecloud, lxc.
	Runtime string `yaml:"runtime"`
	// VM puts a virtual machine between each host and its container.
	VM *VM `yaml:"vm"`
	// Seccomp refuses system calls that no job needs, by the runtime's own filter
	// (rootless, docker and podman); false: none are refused. Absent: docker and podman
	// refuse theirs but for those that MPI uses.
	Seccomp *bool `yaml:"seccomp"`
	// User reports whom processes are inside: UserRoot, UserCaller, or "": the image's USER, else the caller.
	User string `yaml:"user"`
	// Network names the interface or CIDR that MPI shall use between hosts;
	// default: the one over which the nodes reached each other.
	Network string `yaml:"network"`
	// Scratch: memory (default) or disk, for what containers write outside
	// the volume.
	Scratch string `yaml:"scratch"`
	// Timeout ends the run after that long; 0, which no Beefile may say: no limit.
	Timeout time.Duration `yaml:"timeout"`
	// Sites in order of priority; default: the order in the sites file.
	Sites []string `yaml:"sites"`
	// Order in which they are tried: listed (default), cheapest or soonest.
	Order string `yaml:"order"`
	// Wait is how long to continue asking when no site can take the run now;
	// default: not at all, and a day for a run that has a checkpoint.
	Wait time.Duration `yaml:"wait"`
	// Retry is how often the run is tried again when its command fails.
	Retry int `yaml:"retry"`
	// Restarts has a run without Checkpoint begin again that has lost its hosts.
	Restarts bool `yaml:"restarts" json:",omitempty"`
	// Array makes a run of each of its cases; nil: the job is one run. No record has it, as
	// a case has none.
	Array *Array `yaml:"array" json:"-"`
	// Pack are the cases of an array that share the lease of this run, which has no command
	// of its own; none: it is no pack.
	Pack []PackedCase `yaml:"-" json:",omitempty"`
	// PackAtOnce is how many of these run at the same time; 0: as many as the host has cores and
	// memory for.
	PackAtOnce int `yaml:"-" json:",omitempty"`
	// PackStopAt is with how many failed ones no more of these begin; 0: with none. The record of a
	// run counts all cases of the array, and that of an attempt what is left for its own.
	PackStopAt int `yaml:"-" json:",omitempty"`
	// After are the runs that have to end before this one begins.
	After []After `yaml:"after" json:",omitempty"`
	// Notify are the receivers of notifications about the run.
	Notify []Notify `yaml:"notify" json:",omitempty"`
	// Progress is where the job's progress is read from, and Metrics are patterns of numbers
	// in its output, by name.
	Progress *Progress         `yaml:"progress" json:",omitempty"`
	Metrics  map[string]string `yaml:"metrics" json:",omitempty"`

	// Dir is the absolute directory of the Beefile, against which its
	// relative paths were resolved.
	Dir string `yaml:"-"`
}

// Build says how to make the image. Exactly one of Dockerfile and Debian is set.
type Build struct {
	// Dockerfile's directory (absolute after parsing) and optional file name.
	Context    string            `yaml:"context"`
	Dockerfile string            `yaml:"dockerfile"`
	Args       map[string]string `yaml:"args"`
	// Builder of a Dockerfile: buildah, podman, docker or vm; default: the first
	// that is there.
	Builder string `yaml:"builder" json:",omitempty"`
	// Debian suite, such as bookworm.
	Debian   string   `yaml:"debian"`
	Packages []string `yaml:"packages"`
	// Slim leaves out what packages recommend, documentation and translations.
	Slim bool `yaml:"slim"`
	// Snapshot date, such as 20250520T000000Z, for bit-for-bit identity.
	Snapshot string `yaml:"snapshot"`
	// Mirror is the Debian mirror's URL; default: the host's own, or, with
	// Snapshot, Debian's archive of past dates.
	Mirror string `yaml:"mirror"`
	// Copy puts local files into the image before Run.
	Copy []Copy `yaml:"copy"`
	// Run are shell commands, as root in the new root file system.
	Run        []string          `yaml:"run"`
	Env        map[string]string `yaml:"env"`
	Workdir    string            `yaml:"workdir"`
	Entrypoint *Command          `yaml:"entrypoint"`
	Cmd        *Command          `yaml:"cmd"`
}

// Input is what a run's containers have of elsewhere.
type Input struct {
	// From is local, absolute after parsing, and may hold a glob (*, ?, [..]) in its last
	// elements; or it is a Remote file; "": Earlier is set.
	From string `yaml:"from"`
	// Earlier is what an earlier run left in its volume; zero: From is set.
	Earlier RunPath `yaml:"-" json:",omitzero"`
	// To is absolute inside the containers.
	To string `yaml:"to"`
	// SHA256 is the digest of a Remote file, in lower case after parsing; "": not known.
	SHA256 string `yaml:"sha256" json:",omitempty"`
}

// Copy puts local files into an image. From is local (absolute after parsing), To absolute
// inside.
type Copy struct {
	From string `yaml:"from"`
	To   string `yaml:"to"`
}

// Command is a shell string or an argument vector; exactly one is set, except
// for an explicitly empty argument vector.
type Command struct {
	Shell string   `json:"shell,omitempty"`
	Argv  []string `json:"argv"`
}

// Words is the command as an argument vector; of none there are none.
func (c *Command) Words() []string {
	switch {
	case c == nil:
		return nil
	case c.Shell != "":
		return []string{"/bin/sh", "-c", c.Shell}
	}
	return c.Argv
}

// Interruptible reports whether the run survives the loss of an attempt's hosts: it continues from a checkpoint, or
// begins again.
func (j *Job) Interruptible() bool { return j.Checkpoint != nil || j.Restarts }

// EntrypointWords is the entrypoint as an argument vector; nil: the image's own.
func (j *Job) EntrypointWords() []string {
	if j.Entrypoint == nil {
		return nil
	}
	return append([]string{}, j.Entrypoint.Words()...)
}

// Secret says where to read a secret's value at submission: exactly one of a
// variable of the caller's environment, a file, or a command's output.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
	Exec string `yaml:"exec"`
}

// Site is one entry of the sites file.
type Site struct {
	Name     string `yaml:"name"`
	Provider string `yaml:"provider"` // local | ssh | slurm | aws | openstack | virtualbox
	// Hosts of a local site: the number of emulated hosts (0: this machine
	// itself); of an ssh site: names or patterns such as ann@n[2-9].
	Hosts Hosts `yaml:"hosts"`
	// Scratch is the directory on the hosts for run directories; may hold
	// $USER, $HOME and other variables, expanded on the host.
	Scratch string `yaml:"scratch"`
	// Slot is how long an attempt may take here, more than LeastMargin; 0,
	// which no sites file may say: as long as it needs.
	Slot time.Duration `yaml:"slot"`
	// Wait is how long to stay in the site's queue before the next site is
	// tried; 0: as long as it takes.
	Wait time.Duration `yaml:"wait"`
	// Price of one host for one hour.
	Price Price `yaml:"price"`
	// MaxCost is what all attempts of one run may cost here together, in the currency of Price; 0: no limit.
	MaxCost float64 `yaml:"max_cost" json:",omitempty"`
	// Login is the login node of a slurm site, as ssh understands it; "": this
	// machine is one.
	Login string `yaml:"login"`
	Slurm *Slurm `yaml:"slurm"`
	AWS   *AWS   `yaml:"aws" json:",omitempty"`
	// OpenStack is for provider openstack.
	OpenStack *OpenStack `yaml:"openstack" json:",omitempty"`
	// VirtualBox is for provider virtualbox.
	VirtualBox *VirtualBox `yaml:"virtualbox" json:",omitempty"`
	// Slots is the number of cores to use per host; 0: all of them.
	Slots int `yaml:"slots"`
	// Runs is the most runs at a time on each host of a site without a queue; 0: no limit.
	Runs int `yaml:"runs" json:",omitempty"`
	// Oversubscribe has runs start at once there, though others use the cores and memory.
	Oversubscribe bool `yaml:"oversubscribe" json:",omitempty"`
	// Runtime: auto or a runtime's name.
	Runtime string `yaml:"runtime"`
	// Network: as in Job.
	Network string `yaml:"network"`
	// PrivateScratch gives each emulated host a scratch of its own, as on
	// machines without a shared file system.
	PrivateScratch bool `yaml:"private_scratch"`
	// LinkRate limits each emulated host's link, in bits per second; 0: none.
	LinkRate BitRate `yaml:"link_rate"`
	// Paths are directories on the hosts by the names that mounts of jobs may use.
	Paths map[string]string `yaml:"paths" json:",omitempty"`
	// SSHOptions are given to ssh as -o KEY=VALUE.
	SSHOptions map[string]string `yaml:"ssh_options"`
}
