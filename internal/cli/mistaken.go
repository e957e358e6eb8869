package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noBeefile is the error for a file of another kind where a Beefile is expected, or nil.
func noBeefile(file string) error {
	kind := spec.FileKind(file)
	remedy := ""
	switch kind {
	case spec.KindBeefile:
		return nil
	case spec.KindSites:
		remedy = "`bee run --sites " + file + " job.yaml` uses it, and `bee check " + file + "` checks it."
	case spec.KindDockerfile:
		remedy = "Write a Beefile with `build: .` and `run: …` beside it, and run that."
	default:
		remedy = "Write a Beefile with `image:` and `run:`, or run its image: `bee run IMAGE COMMAND`."
	}
	return &core.Error{Kind: core.Invalid, Op: "read Beefile", Object: file, Err: fmt.Errorf("it is a %s", kind), Remedy: remedy}
}

// nothingToRun is the error of a `bee run` without arguments. With -v FILE, which once
// was a debug log, the file is a Beefile.
func nothingToRun(c *cobra.Command, volumes []string) error {
	for _, v := range volumes {
		if info, err := os.Stat(v); err == nil && info.Mode().IsRegular() {
			return &core.Error{
				Kind: core.Invalid, Op: "read arguments of", Object: c.CommandPath(), Err: fmt.Errorf("-v mounts a directory, and %q is a file", v),
				Remedy: "A debug log is written by `bee run --verbose " + v + "`.",
			}
		}
	}
	return wrongArguments(c, nil)
}

// foreignFlag is what bee has in place of a flag of docker or Slurm.
type foreignFlag struct {
	names []string
	hint  string
}

// foreignFlags are those that people give to `bee run`.
var foreignFlags = []foreignFlag{ //nolint:gochecknoglobals // a table
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
	{[]string{"user", "u", "privileged", "cap-add", "security-opt", "ipc", "pid", "userns", "fakeroot"}, "Leave it out: containers need no such rights; `user: root` in a Beefile gives uid 0."},
	{[]string{"background", "detached"}, "Give -d."},
	{[]string{"array"}, "Start one run for each element: `for i in 1 2 3; do bee run -d -e I=$i job.yaml; done`."},
	{[]string{"dependency", "depend"}, "Wait for the other run first: `bee wait RUN && bee run job.yaml`."},
	{[]string{"restart", "requeue"}, "Write `retry: 3` to a Beefile."},
	{[]string{"l", "label-file"}, "Write --label KEY=VALUE, and list such runs by `bee ps --label KEY`."},
	{[]string{"platform", "arch"}, "Write `platform: linux/amd64` to a Beefile."},
}

// flagHint is the remedy for a flag of another tool or a typing error, or "".
func flagHint(c *cobra.Command, err error) string {
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if c.Name() == "run" {
		for _, f := range foreignFlags {
			if slices.Contains(f.names, name) {
				return f.hint
			}
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
