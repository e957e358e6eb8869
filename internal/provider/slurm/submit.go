package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/shell"
)

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
	go procid.Reap(c) // else it stays a zombie as long as we live
	return nil
}
