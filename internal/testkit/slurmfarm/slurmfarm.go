// Package slurmfarm gives tests a cluster under a real Slurm: a login node with
// slurmctld and sshd, and compute nodes with a slurmd each, on emulated hosts
// with a network of their own. It needs no root: the whole of Slurm belongs to
// the user who runs the test.
package slurmfarm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// Cores is the number of cores that a compute node offers, if nothing else is reported.
const Cores = 2

// Farm is a running cluster. Host 0 is the login node, h0; the compute nodes
// are h1, h2, ….
type Farm struct {
	*sshfarm.Farm
	// Slurm holds slurm.conf and the daemons' logs.
	Slurm string
	// Env is what a login needs to see of Slurm, KEY=VALUE.
	Env  []string
	tool map[string]string
	// root has the /usr of the hosts; "": they have that of this machine.
	root string
	// libraries is where daemons look for libraries first; "": in no such place.
	libraries string
}

// Start starts a cluster of n compute nodes with these partitions: main, which
// is the default; brief, of one minute; high, which preempts low. The first nodes
// have as many cores as is reported.
func Start(t testing.TB, n int, cores ...int) *Farm {
	t.Helper()
	return StartFor(t, nil, n, cores...)
}

// StartFor is Start with variables, KEY=VALUE, that every login of the account has.
func StartFor(t testing.TB, account []string, n int, cores ...int) *Farm {
	t.Helper()
	f := prepare(t, account, n, cores)
	f.run(t, n)
	return f
}

// prepare gives the hosts of a cluster, and all that the daemons of Slurm need to run.
func prepare(t testing.TB, account []string, n int, cores []int) *Farm {
	t.Helper()
	f := &Farm{tool: map[string]string{}}
	var (
		err    error
		mounts []emulate.Mount
	)
	// Not the test's own directory, whose name is too long for the sockets of
	// slurmd's batch steps: it would cancel the jobs.
	f.Slurm, err = os.MkdirTemp("", "slurm-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(f.Slurm) })
	if release := os.Getenv(releaseVariable); release != "" {
		f.root = root(t, release)
		must(t, os.WriteFile(f.file("hosts"), nil, 0o644))
		mounts = []emulate.Mount{{Source: filepath.Join(f.root, "usr"), Target: "/usr"}, {Source: f.file("hosts"), Target: "/etc/hosts"}}
	}
	for _, name := range []string{"slurmctld", "slurmd", "munged", "sbatch", "squeue"} {
		f.tool[name] = f.find(t, name)
	}
	conf := filepath.Join(f.Slurm, "slurm.conf")
	f.Env = []string{"SLURM_CONF=" + conf}
	f.Farm = sshfarm.StartWith(t, n+1, mounts, append(slices.Clip(account), f.Env...)...)
	for _, dir := range []string{"state", "spool"} {
		must(t, os.Mkdir(filepath.Join(f.Slurm, dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(f.Slurm, "munge.key"), bytes.Repeat([]byte("not a secret"), 12), 0o400))
	must(t, os.WriteFile(conf, []byte(f.config(n, cores)), 0o644))
	if f.root != "" {
		f.modernize(t)
	}
	f.daemon(t, 0, "munged", "--foreground", "--force", "--socket="+f.file("munge.socket"), "--key-file="+f.file("munge.key"),
		"--pid-file="+f.file("munge.pid"), "--log-file="+f.file("munge.log"), "--seed-file="+f.file("munge.seed"))
	testkit.Eventually(t, 20*time.Second, func() error { _, err := os.Stat(f.file("munge.socket")); return err })
	return f
}

// run starts Slurm's daemons, and waits until they take jobs.
func (f *Farm) run(t testing.TB, n int) {
	t.Helper()
	f.daemon(t, 0, "slurmctld", "-D", "-f", f.file("slurm.conf"))
	for i := range n {
		f.StartNode(t, i+1)
	}
	testkit.Eventually(t, 60*time.Second, func() error {
		out, err := f.Do("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D")
		if err == nil && strings.TrimSpace(out) != fmt.Sprint(n) {
			err = fmt.Errorf("%q of %d nodes are idle\n%s", out, n, f.logs())
		}
		return err
	})
	// Idle nodes may still refuse their first job.
	testkit.Eventually(t, 30*time.Second, func() error {
		_, err := f.Do("srun", fmt.Sprintf("--nodes=%d", n), "--mpi=none", "true")
		return err
	})
}

// StartNode starts the slurmd of a compute node.
func (f *Farm) StartNode(t testing.TB, host int) {
	t.Helper()
	f.daemon(t, host, "slurmd", "-D", "-f", f.file("slurm.conf"), "-N", f.Names[host])
}

// Do runs a command on the login node and gives what it printed.
func (f *Farm) Do(argv ...string) (string, error) { return f.DoOn(0, argv...) }

// DoOn is Do on another host, all of which have Slurm's commands and the same files.
func (f *Farm) DoOn(host int, argv ...string) (string, error) {
	out, err := f.command(host, argv...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%q: %w: %s", argv, err, out)
	}
	return string(out), err
}

// command runs a program on a host.
func (f *Farm) command(host int, argv ...string) *exec.Cmd {
	return exec.Command(filepath.Join(f.Bin, "ssh"), append([]string{f.Names[host], "--"}, argv...)...)
}

func (f *Farm) file(name string) string { return filepath.Join(f.Slurm, name) }

func (f *Farm) daemon(t testing.TB, host int, name string, args ...string) {
	t.Helper()
	env := append(append(os.Environ(), databaseVariable+"="+f.file(databaseSocket)), f.Env...)
	if f.libraries != "" {
		env = append(env, "LD_LIBRARY_PATH="+f.libraries)
	}
	_, err := f.Launch(t.Context(), emulate.Command{
		Host: host, Path: f.tool[name], Argv: append([]string{name}, args...),
		Env: env, Tag: name, Log: f.file(fmt.Sprintf("%s-%d.log", name, host)),
	})
	must(t, err)
}

// logs are the ends of what the daemons wrote.
func (f *Farm) logs() string {
	var out strings.Builder
	paths, _ := filepath.Glob(f.file("*.log"))
	for _, p := range paths {
		raw, _ := os.ReadFile(p)
		fmt.Fprintf(&out, "--- %s\n%s\n", filepath.Base(p), raw[max(0, len(raw)-1500):])
	}
	return out.String()
}

func (f *Farm) config(n int, cores []int) string {
	user := fmt.Sprint(os.Geteuid())
	unkillable := 20
	if f.root != "" {
		unkillable = 60 // newer versions of Slurm demand five times their MessageTimeout
	}
	var b strings.Builder
	fmt.Fprintf(&b, `ClusterName=farm
SlurmctldHost=%s(%s)
SlurmUser=%s
SlurmdUser=%s
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=%s
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
JobAcctGatherType=jobacct_gather/none
StateSaveLocation=%s
SlurmdSpoolDir=%s/%%n
SlurmdPidFile=%s/slurmd-%%n.pid
SlurmctldPidFile=%s
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=0
KillWait=5
SlurmdTimeout=10
UnkillableStepTimeout=%d
ReturnToService=2
SlurmdParameters=config_overrides
Licenses=lab:2
`, f.Names[0], f.Addrs[0], user, user, f.file("munge.socket"), f.file("state"), f.file("spool"), f.Slurm, f.file("slurmctld.pid"), unkillable)
	for i := 1; i <= n; i++ {
		has := Cores
		if i <= len(cores) {
			has = cores[i-1]
		}
		fmt.Fprintf(&b, "NodeName=%s NodeAddr=%s CPUs=%d RealMemory=4000 State=UNKNOWN\n", f.Names[i], f.Addrs[i], has)
	}
	b.WriteString(`PartitionName=main Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=10 State=UP PreemptMode=OFF
PartitionName=brief Nodes=ALL MaxTime=1 State=UP PreemptMode=OFF
PartitionName=low Nodes=ALL MaxTime=60 State=UP PriorityTier=1 PreemptMode=CANCEL GraceTime=30
PartitionName=high Nodes=ALL MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
`)
	return b.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
