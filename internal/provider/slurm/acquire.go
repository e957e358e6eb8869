package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// leasesDir holds one directory for each lease, in <scratch>/bee, and cacheDir images.
const (
	leasesDir = ".slurm"
	cacheDir  = "cache"
)

func kind() leasedir.Kind {
	return leasedir.Kind{Driver: "slurm", Version: 1, Leases: leasesDir, Mounted: true}
}

// The files in a lease's directory.
const (
	detailsName  = "lease.json"   // written when the job is submitted
	grantedName  = "granted.json" // written when its nodes are there
	keysName     = "keys.json"
	scriptName   = "job.sh"
	logName      = "job.log"
	draftName    = "orders.new"  // what to start without a controller, not in force
	specName     = "orders.json" // the same in force
	startedName  = "started"     // made when nodes are started, by anyone
	attendedName = "attended"    // all is there, and anyone who asked for the nodes will start them
	missedName   = "missed"      // the nodes were released as nobody used them
	hopeName     = "hope"        // touched while files are still being brought
	verdictName  = "verdict"     // why the agents gave the nodes back, for people
	binaryName   = "bee"
	releasedName = "released" // the job shall end
	hostsDir     = "hosts"    // what the agents say of themselves
)

// details are what is known of a lease whose job was submitted.
type details struct {
	// Job is Slurm's number of it.
	Job string `json:"job"`
	// Own is false where the job is the user's, who ends it.
	Own bool `json:"own"`
	// Restarts is how often Slurm had requeued a job of the user's when bee began its step;
	// the steps of each start have the same numbers. "": not known, or the job is bee's own.
	Restarts string `json:"restarts,omitempty"`
	Nodes    int    `json:"nodes"`
	Dir      string `json:"dir"` // the run's directory
}

// terms are what is known of a lease once its nodes are there.
type terms struct {
	Hosts    []core.Host `json:"hosts"`
	Deadline time.Time   `json:"deadline,omitzero"`
	// Agents are where each host's agent listens, and Step the job's step that
	// they make up.
	Agents [][]string `json:"agents"`
	Step   string     `json:"step"`
	// Since is when the nodes were granted.
	Since time.Time `json:"since,omitzero"`
}

// keys are those of a lease: for its agents, and for who speaks with them.
type keys struct {
	CA         []byte `json:"ca"`
	AgentCert  []byte `json:"agent_cert"`
	AgentKey   []byte `json:"agent_key"`
	ClientCert []byte `json:"client_cert"`
	ClientKey  []byte `json:"client_key"`
}

// Acquire makes the lease's directory, which is the record of the intent, then
// the run's directory, then submits the job, then writes its number.
func (p *provider) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	leave, err := p.s.Queue.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := p.fits(ctx, r); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil { // what was to be known may have been known before
		return nil, err
	}
	for _, dir := range []string{filepath.Join(p.base, leasesDir), p.base} {
		if err := leasedir.Own(dir); err != nil {
			return nil, err
		}
	}
	l := &lease{p: p, owner: r.Owner, base: p.base, dir: kind().Dir(p.base, r.Owner)}
	unlock, err := leasedir.Lock(ctx, l.dir, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := l.read(); err != nil {
		return nil, err
	}
	if l.details.Job != "" {
		if j, err := jobNumbered(ctx, l.details.Job); err != nil {
			return nil, err
		} else if j != nil && !j.over() {
			return l, nil
		}
	}
	// Nothing, the half of a lease, or a dead one: begin again.
	if err := l.destroy(ctx); err != nil {
		return nil, err
	}
	if err := p.make(ctx, l, r); err != nil {
		return nil, leasedir.Undo(ctx, err, l.dir, l.owner, l.destroy)
	}
	return l, nil
}

// make makes everything that a lease consists of, and submits the job last.
func (p *provider) make(ctx context.Context, l *lease, r driver.Request) error {
	run := leasedir.RunDir(l.base, r.Owner.Run)
	if err := leasedir.Claim(p.s.Name, l.dir, run); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(l.dir, hostsDir), 0o700); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	if err := writeKeys(l.dir); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	argv := p.s.HostArgv
	if len(argv) == 0 {
		binary := filepath.Join(l.dir, binaryName)
		if err := place(r.Binary, binary); err != nil {
			return leasedir.Unusable(l.dir, err)
		}
		argv = []string{binary, HostArg}
	}
	step := stepCommand(r.Nodes, append(argv, l.dir))
	l.details = details{Nodes: r.Nodes, Dir: run, Own: p.s.Job == ""}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var err error
	if l.details.Own {
		l.details.Job, err = p.submit(ctx, l.dir, step, r)
	} else if l.details.Restarts, err = restarts(ctx, p.s.Job); err == nil {
		l.details.Job, err = p.s.Job, startStep(l.dir, p.s.Job, l.details.Restarts, step)
	}
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(l.dir, detailsName), l.details); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return context.Cause(ctx)
}

// stepCommand is the step that starts one agent on each node. It asks for what
// the whole job has, and for no MPI of Slurm's: what MPI needs is in the image.
func stepCommand(nodes int, agent []string) []string {
	n := strconv.Itoa(nodes)
	return append([]string{
		"srun", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1", "--overlap", "--mpi=none",
		"--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0", "--input=none", "--job-name=bee",
		"--export=ALL", // whatever the job was submitted with: see package environ
	}, agent...)
}

// submit submits the job. Once sbatch was started it is waited for, whatever
// becomes of ctx, as its job is ours then.
func (p *provider) submit(ctx context.Context, dir string, step []string, r driver.Request) (string, error) {
	script := "#!/bin/sh\n# Starts bee's agent on each node of this job; bee talks to them from the login node.\n" +
		"unset SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_NTASKS_PER_NODE " + strings.Join(environ.OfRuntime(), " ") + "\nexec"
	for _, word := range step {
		script += " " + shell.Quote(word)
	}
	path := filepath.Join(dir, scriptName)
	if err := os.WriteFile(path, []byte(script+"\n"), 0o700); err != nil {
		return "", leasedir.Unusable(dir, err)
	}
	asked := time.Now()
	out, err := call(context.WithoutCancel(ctx), "sbatch", append(p.options(dir, r), path)...)
	if err != nil {
		p.s.Queue.outdate(asked)
		return "", err
	}
	if id := numberIn(out); id != "" {
		return id, nil
	}
	// A site's own sbatch prints what it likes: the job has the lease's directory.
	list, err := jobsIn(context.WithoutCancel(ctx), dir)
	if err != nil || len(list) == 0 {
		return "", errors.Join(fmt.Errorf("sbatch printed %q, not the job's number", out), err)
	}
	return list[len(list)-1].id, nil
}

// numberIn finds the job's number in what sbatch has printed: a line of its own, behind
// which a cluster's name may follow, or what sbatch prints where it is not asked to be
// brief. "": it is not there.
func numberIn(out string) (id string) {
	for line := range strings.Lines(out) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), ";")
		line = strings.TrimPrefix(line, "Submitted batch job ")
		if n, err := strconv.ParseUint(line, 10, 32); err == nil && n > 0 {
			id = line
		}
	}
	return id
}

// options are those of sbatch for a request.
func (p *provider) options(dir string, r driver.Request) []string {
	o := []string{
		"--parsable", "--no-requeue", "--job-name=bee-" + r.Owner.Run, "--chdir=" + dir, "--open-mode=append",
		"--output=" + filepath.Join(dir, logName), "--nodes=" + strconv.Itoa(r.Nodes), "--ntasks-per-node=1",
	}
	slots := r.SlotsPerNode
	if slots == 0 {
		slots = p.s.Slots
	}
	if slots > 0 {
		o = append(o, "--cpus-per-task="+strconv.Itoa(slots))
	}
	whole := slots == 0 || p.s.Exclusive
	if whole {
		o = append(o, "--exclusive")
	}
	switch {
	case r.Memory > 0:
		o = append(o, "--mem="+strconv.FormatInt(mebibytes(r.Memory), 10))
	case whole && !p.asksFor("--mem"):
		o = append(o, "--mem=0") // all that the nodes have
	}
	if p.s.Slot > 0 {
		o = append(o, "--time="+minutes(p.s.Slot))
	}
	if p.s.MinSlot > 0 {
		o = append(o, "--time-min="+minutes(p.s.MinSlot))
	}
	if r.GPUs > 0 && p.s.Gres == "" && !p.asksFor("--gpus") && !p.asksFor("--gres") {
		o = append(o, "--gpus-per-node="+strconv.Itoa(r.GPUs))
	}
	for _, set := range []struct{ option, value string }{
		{"partition", p.s.Partition},
		{"account", p.s.Account},
		{"qos", p.s.QOS},
		{"constraint", p.s.Constraint},
		{"gres", p.s.Gres},
		{"reservation", p.s.Reservation},
		{"licenses", p.s.Licenses},
	} {
		if set.value != "" {
			o = append(o, "--"+set.option+"="+set.value)
		}
	}
	return append(o, slices.DeleteFunc(slices.Clone(p.s.Options), func(own string) bool { return r.Memory > 0 && isMemory(own) })...)
}

// isMemory reports whether an option of sbatch asks for memory: a job's own comes first, and
// of these sbatch takes one only.
func isMemory(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	return name == "--mem" || name == "--mem-per-cpu" || name == "--mem-per-gpu"
}

// asksFor reports whether the site's own flags have one that begins so.
func (p *provider) asksFor(flag string) bool {
	return slices.ContainsFunc(p.s.Options, func(o string) bool { return strings.HasPrefix(o, flag) })
}

// minutes is a time as sbatch takes it, which counts in minutes, rounded up.
func minutes(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Minute-1)/time.Minute), 10)
}

// startStep starts the agents' step in a job of the user's, which Slurm has requeued so
// often. The srun process outlives this one.
func startStep(dir, id, restarts string, step []string) error {
	log, err := fsutil.Append(filepath.Join(dir, logName), 0o600)
	if err != nil {
		return leasedir.Unusable(dir, err)
	}
	defer log.Close()
	c := exec.Command(step[0], append([]string{"--jobid=" + id}, step[1:]...)...) //nolint:noctx // it outlives us
	c.Stdout, c.Stderr, c.Dir = log, log, dir
	c.Env = environ.Known(os.Environ())
	if restarts != "" { // only a job's own script has it from Slurm
		c.Env = append(c.Env, "SLURM_RESTART_COUNT="+restarts)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	go c.Wait() //nolint:errcheck // else it stays a zombie as long as we live
	return nil
}

// place copies the binary to the lease's directory, where the nodes see it. It shares
// blocks with the installed one where the file system can, and never the file itself: who
// can write to it in the lease must not change the user's program.
func place(binary, at string) (err error) {
	from, err := os.Open(binary)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o500)
	if err != nil {
		return err
	}
	if err = unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		_, err = io.Copy(to, from)
	}
	return errors.Join(err, to.Close())
}

// The names in the certificates of a lease.
const (
	agentName  = "agent"
	clientName = "client"
)

func writeKeys(dir string) error {
	a, err := wire.NewAuthority()
	if err != nil {
		return err
	}
	k := keys{CA: a.Certificate()}
	if k.AgentCert, k.AgentKey, err = a.Issue(agentName); err != nil {
		return err
	}
	if k.ClientCert, k.ClientKey, err = a.Issue(clientName); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, keysName), k)
}

// Recover gives the lease of a handle. One that is half-made, or whose job is
// over, is given too, as not live: its files can be fetched, and it has to be
// released.
func (p *provider) Recover(_ context.Context, h core.Handle) (driver.Lease, error) {
	dir, base, err := kind().Find(h)
	if err != nil {
		return nil, err
	}
	l := &lease{p: p, owner: h.Owner, base: base, dir: dir}
	if err := l.read(); err != nil {
		return nil, err
	}
	return l, nil
}

// List gives every lease of the owner's, whole or not.
func (p *provider) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	return kind().List(q, p.base)
}

// provisional are the hosts before they are granted: as much as it takes to
// bring files there.
func (l *lease) provisional() []core.Host {
	hosts := make([]core.Host, l.details.Nodes)
	for i := range hosts {
		hosts[i] = core.Host{Index: i, Dir: l.details.Dir, Cache: filepath.Join(l.base, cacheDir), Arch: goruntime.GOARCH}
	}
	return hosts
}

// writeJSON writes a file that only the user can read, whole or not at all.
func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(path, raw, 0o600)
}

// mostRecord bounds a file of a lease's, in bytes. Those of the largest cluster are smaller.
const mostRecord = 64 << 20

func readJSON(path string, into any) error {
	raw, err := fsutil.ReadFile(filepath.Dir(path), filepath.Base(path), mostRecord)
	if err != nil {
		return err
	}
	return core.DecodeJSON(raw, into)
}

// readIfThere is readJSON for a file that may not be there. With an error it is not known
// what is in it; what nobody can read is as if it were not there.
func readIfThere(path string, into any) (there bool, err error) {
	raw, err := fsutil.ReadFile(filepath.Dir(path), filepath.Base(path), mostRecord)
	if errors.Is(err, fs.ErrNotExist) || fsutil.Spoiled(err) {
		return false, nil
	}
	if err != nil {
		return false, &core.Error{Kind: core.Transient, Op: "read", Object: path, Err: err, Remedy: "Is the file system of the site's `scratch` mounted, and does it answer?"}
	}
	return core.DecodeJSON(raw, into) == nil, nil
}
