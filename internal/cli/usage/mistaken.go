package usage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// DefaultBeefile is the name of Beefiles that bee writes.
const DefaultBeefile = "job.yaml"

// NoBeefile is the error for a file of another kind where a Beefile is expected, or nil.
func NoBeefile(file string) error {
	kind := spec.FileKind(file)
	remedy := ""
	switch kind {
	case spec.KindBeefile:
		return nil
	case spec.KindSites:
		remedy = "`bee run --sites " + file + " job.yaml` uses it, and `bee check " + file + "` checks it."
	case spec.KindArchive:
		remedy = "`bee run " + shell.Word("docker-archive:"+file) + "` runs an image that docker or podman saved."
	case spec.KindDockerfile:
		remedy = "Write a Beefile with `build: .` and `run: …` beside it, and run that."
	case spec.KindBatch, spec.KindCompose, spec.KindSkyPilot, spec.KindDefinition:
		remedy = "`bee init --from " + shell.Word(file) + "` makes a Beefile of it."
	case spec.KindScript:
		remedy = "If it has a `docker run` line, `bee init --from " + shell.Word(file) + "` converts it; else write a Beefile with `image:` and `run:`."
	default:
		remedy = "Write a Beefile with `image:` and `run:`, or run its image: `bee run IMAGE COMMAND`."
	}
	return &core.Error{Kind: core.Invalid, Op: "read Beefile", Object: file, Err: fmt.Errorf("it is a %s", kind), Remedy: remedy}
}

// NoDirectory is the error for a directory where a Beefile is expected, or nil.
func NoDirectory(dir string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	e := &core.Error{
		Kind: core.Invalid, Op: "read Beefile", Object: dir, Err: errors.New("it is a directory"),
		Remedy: "`bee init` writes a Beefile for the files of the directory in which you are.",
	}
	if info, err := os.Stat(filepath.Join(dir, DefaultBeefile)); err == nil && info.Mode().IsRegular() {
		e.Remedy = "`bee run " + shell.Word(filepath.Join(dir, DefaultBeefile)) + "` runs the Beefile in it."
	}
	return e
}

// NothingToRun is the error of a `bee run` without arguments. With -v FILE, which once
// was a debug log, the file is a Beefile.
func NothingToRun(c *cobra.Command, volumes []string) error {
	if len(volumes) == 0 {
		return WrongArguments(c, nil)
	}
	v := volumes[0]
	e := &core.Error{
		Kind: core.Invalid, Op: "read arguments of", Object: c.CommandPath(), Err: fmt.Errorf("-v mounts a directory, and no Beefile or image follows %q", v),
		Remedy: "Name what to run: `bee run -v " + shell.Word(v) + " IMAGE`.",
	}
	if !strings.Contains(v, ":") { // as for a debug log
		e.Remedy = "A debug log is written by `bee run --verbose " + shell.Word(v) + "`, and a mount is `-v HOST:PATH`."
	}
	return e
}

// foreignFlag is what bee has in place of a flag of docker or Slurm.
type foreignFlag struct {
	names []string
	hint  string
}

// foreignFlags are those that people give to `bee run`.
var foreignFlags = []foreignFlag{ // a table
	{[]string{"p", "publish", "P", "publish-all", "expose", "network", "net", "hostname", "h", "link", "dns", "ip"}, "Leave it out: the network of a job is that of its hosts."},
	{[]string{"mount", "bind", "B"}, "Mount a directory of the site: `-v HOST:PATH[:ro]`."},
	{[]string{"cpus", "cpus-per-task", "c", "cpuset-cpus"}, "Give the cores of each node: `--cores 8`."},
	{[]string{"ntasks", "ntasks-per-node", "tasks-per-node", "np"}, "Give the nodes by -n, and the ranks of each by `ranks_per_node:` in a Beefile."},
	{[]string{"m", "mem", "mem-per-cpu"}, "Give the memory of each node: `--memory 16G`."},
	{[]string{"shm-size"}, "Leave it out: containers have the hosts' shared memory."},
	{[]string{"partition", "account", "A", "qos", "constraint", "C", "exclusive", "reservation"}, "Write it to `slurm:` in the sites file, and choose the site by --site."},
	{[]string{"gres", "gpus-per-node", "G", "nv", "runtime"}, "Ask for GPUs by `--gpus 1` or `--gpus all`."},
	{[]string{"N", "nnodes", "num-nodes"}, "Give the number of nodes by -n."},
	{[]string{"J", "job-name"}, "Name the run by --name."},
	{[]string{"o", "output", "error"}, "`bee logs RUN` shows what the job prints."},
	{[]string{"chdir", "D", "pwd", "cwd"}, "Give the directory by -w."},
	{[]string{"host", "ssh", "cluster", "M", "w-nodelist", "nodelist", "context"}, "Write the machine to the sites file, and choose it by --site."},
	{[]string{"user", "u", "privileged", "cap-add", "cap-drop", "security-opt", "ipc", "pid", "userns", "fakeroot"}, "Leave it out: containers need no such rights; `user: root` in a Beefile gives uid 0."},
	{[]string{"background", "detached"}, "Give -d."},
	{[]string{"array"}, "Write the cases into a Beefile: `array: {cases: {i: {from: 1, to: 10}}}`, and `${case.i}` in its command."},
	{[]string{"dependency", "depend"}, "Name the other run: `bee run --after RUN job.yaml`."},
	{[]string{"restart", "requeue"}, "Write `retry: 3` to a Beefile."},
	{[]string{"l", "label-file"}, "Write --label KEY=VALUE, and list such runs by `bee ps --label KEY`."},
	{[]string{"wrap"}, "Write the command behind the image: `bee run IMAGE COMMAND`."},
	{[]string{"mpi"}, "Leave it out, and run the image's own: `bee run -n 2 IMAGE mpirun ./solver`."},
	{[]string{"device", "devices"}, "Ask for GPUs by `--gpus 1`; containers have the host's InfiniBand devices anyway."},
	{[]string{"tmpfs"}, "Leave it out: what a container writes outside of its volume is in memory."},
	{[]string{"init", "tini"}, "Leave it out: containers of bee have a first process that ends all others."},
	{[]string{"log-driver", "log-opt", "ulimit", "cgroupns", "cgroup-parent", "memory-swap", "pids-limit", "stop-timeout", "stop-signal", "health-cmd", "no-healthcheck", "read-only"}, "Leave it out: a run ends when its command does, and `bee logs` has its output."},
	{[]string{"mail-type", "mail-user"}, "Write it into the Beefile: `notify: [{mail: you@example.org}]`."},
	{[]string{"export"}, "Set variables by `-e KEY=VALUE`."},
	{[]string{"platform", "arch"}, "Write `platform: linux/amd64` to a Beefile."},
}

// foreignFlagsOf are flags of other tools that people give to other commands.
var foreignFlagsOf = map[string][]foreignFlag{ // a table
	"ps": {
		{[]string{"f", "filter"}, "Choose runs by --state, --site, --name and --label."},
		{[]string{"t", "states"}, "Choose runs by --state."},
		{[]string{"l", "long", "o"}, "Write --json for all fields, or --format for some."},
		{[]string{"n", "last", "latest"}, "Give the number of runs by --limit."},
		{[]string{"u", "user", "me"}, "Leave it out: the list has runs of yours alone."},
		{[]string{"no-trunc"}, "Leave it out: texts are whole in a pipe, as in `bee ps | cat`."},
	},
	"logs": {
		{[]string{"n", "lines"}, "Give the number of lines by --tail."},
		{[]string{"details"}, "Write --json for all that is known of each piece."},
	},
	"exec": {
		{[]string{"u", "user", "privileged"}, "Leave it out: the command has the user of the job."},
		{[]string{"d", "detach"}, "Leave it out, and end the command with &: `bee exec RUN sh -c 'program &'`."},
		{[]string{"N", "n", "nodelist"}, "Name a node by its rank: --node 1."},
	},
	"stop": {
		{[]string{"t", "time", "timeout", "s", "signal"}, "Leave it out: a job gets TERM and its grace, as `checkpoint: {grace: 60s}` of a Beefile says."},
		{[]string{"u", "user", "me"}, "Write --all for all runs of yours."},
	},
}

// flagHint is the remedy for a flag of another tool or a typing error, or "".
func flagHint(c *cobra.Command, err error) string {
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return ""
	}
	name := unknown.GetSpecifiedName()
	foreign := foreignFlagsOf[c.Name()]
	if c.Name() == "run" {
		foreign = foreignFlags
	}
	for _, f := range foreign {
		if slices.Contains(f.names, name) {
			return f.hint
		}
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if c.Flags().Lookup(name) != nil { // -site for --site is read as letters
		return "Did you mean --" + name + "?"
	}
	if shorts := unknown.GetSpecifiedShortnames(); len(shorts) > 1 {
		if word, _, _ := strings.Cut(shorts, "="); c.Flags().Lookup(word) != nil {
			return "Did you mean --" + word + "?"
		}
	}
	if near := spec.Nearest(name, known); near != "" && len(name) > 1 {
		return "Did you mean --" + near + "?"
	}
	return ""
}
