package scaffold

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
	fields "mvdan.cc/sh/v3/shell"
)

// batchShort are the long names of sbatch's options of one letter.
var batchShort = map[string]string{ // a table
	"J": "job-name", "N": "nodes", "n": "ntasks", "c": "cpus-per-task", "t": "time", "p": "partition", "A": "account", "q": "qos", "o": "output", "e": "error", "C": "constraint",
	"a": "array", "d": "dependency", "D": "chdir", "G": "gpus", "L": "licenses", "w": "nodelist", "x": "exclude", "M": "clusters", "b": "begin",
}

var batchOption = regexp.MustCompile(`^-(?:-([A-Za-z][\w-]*)|([A-Za-z]))[ \t=]*(.*)$`)

// sbatch converts a batch script of Slurm.
func sbatch(d *draft, file string, data []byte, there func(string) bool) error {
	d.job.Name = nameOf(file)
	first, text, _ := strings.Cut(string(data), "\n")
	if !strings.Contains(string(data), "#SBATCH") {
		return fmt.Errorf("only options of Slurm (#SBATCH) can be converted")
	}
	var body []string
	tasks, directives := 0, true
	b := &batch{draft: d}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		option, is := strings.CutPrefix(line, "#SBATCH")
		switch {
		case is && directives:
			tasks = max(tasks, b.option(strings.TrimSpace(option)))
			continue
		case is: // Slurm reads none behind the first command
			continue
		case strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#"):
			directives = false
		}
		body = append(body, line)
	}
	d.ranks(tasks)
	if b.perTask > 0 {
		d.job.Cores = b.perTask * max(d.job.RanksPerNode, 1)
	}
	script := strings.Trim(d.body(body), "\n") + "\n"
	switch interpreter := path.Base(strings.TrimPrefix(strings.TrimSpace(first), "#!")); {
	case strings.TrimSpace(script) == "":
		return fmt.Errorf("it has options, and no command")
	case strings.HasPrefix(interpreter, "bash"):
		d.job.Run = &spec.Command{Argv: []string{"bash", "-c", script}}
	case strings.HasPrefix(interpreter, "sh"):
		d.job.Run = &spec.Command{Shell: script}
	default:
		d.note("#!%s: the script runs in sh here; name another shell by `run: [%s, -c, …]`", short(interpreter), short(interpreter))
		d.job.Run = &spec.Command{Shell: script}
	}
	d.job.Workdir = "/work"
	d.filesOf(script, there)
	return nil
}

// ranks divides tasks of the whole job among its nodes.
func (d *draft) ranks(tasks int) {
	if tasks == 0 || d.job.RanksPerNode > 0 {
		return
	}
	if tasks%d.job.Nodes != 0 {
		d.note("--ntasks %d: it is no multiple of the %d nodes; `mpirun -n %d` starts that many", tasks, d.job.Nodes, tasks)
	}
	d.job.RanksPerNode = (tasks + d.job.Nodes - 1) / d.job.Nodes
}

// batch are the options of a script that need others.
type batch struct {
	*draft
	perTask int // cores
}

// option converts one option, and returns the number of all tasks where it is that.
func (d *batch) option(line string) (tasks int) {
	if at := strings.Index(line, " #"); at >= 0 {
		line = strings.TrimSpace(line[:at])
	}
	m := batchOption.FindStringSubmatch(line)
	if m == nil {
		d.note("#SBATCH %s: it is no option", short(line))
		return 0
	}
	name, value := m[1], strings.Trim(m[3], `"'`)
	if m[2] != "" {
		if name = batchShort[m[2]]; name == "" {
			name = m[2]
		}
	}
	number, err := strconv.Atoi(value)
	switch {
	case name == "job-name":
		d.job.Name = strings.ReplaceAll(value, "/", "-")
	case name == "nodes" && err == nil && number > 0:
		d.job.Nodes = number
	case name == "ntasks" && err == nil:
		return number
	case name == "ntasks-per-node" && err == nil:
		d.job.RanksPerNode = number
	case name == "cpus-per-task" && err == nil && number > 0:
		d.perTask = number
	case name == "mem" && value != "0":
		d.memory("--"+name, value, "M")
	case name == "time":
		d.timeLimit("--"+name, value)
	case name == "gres" && strings.HasPrefix(value, "gpu"), name == "gpus-per-node":
		d.gpus("--"+name, value)
	case name == "gpus" && d.job.Nodes == 1:
		d.gpus("--"+name, value)
	case name == "chdir":
		d.note("--chdir %s: name its files by `inputs:`, or mount it: `mounts: [{from: %s, to: /data}]`", short(value), short(value))
	case name == "export" && strings.Contains(value, "="):
		for _, pair := range strings.Split(value, ",") {
			if key, text, is := strings.Cut(pair, "="); is {
				d.env(key, text)
			}
		}
	case name == "export", name == "open-mode", name == "no-requeue", name == "export-file": // which change nothing of the job
	case name == "signal":
		d.note("--signal %s: a job that writes checkpoints has `checkpoint: {signal: …, grace: …}`", short(value))
	case slices.Contains([]string{"nodelist", "exclude", "clusters", "begin", "hint", "distribution", "mem-bind", "cpu-bind", "wckey", "comment", "switches", "core-spec", "threads-per-core", "sockets-per-node", "cores-per-socket"}, name):
		d.note("--%s %s: it belongs in the sites file, among the options of sbatch: `slurm: {options: [--%s=%s]}`", name, short(value), name, short(value))
	default:
		d.foreign("--"+name, value)
	}
	return 0
}

// Programs that start containers, and their options with a value.
var (
	starters   = regexp.MustCompile(`\b(?:apptainer|singularity)[ \t]+(?:exec|run)\b`)
	withValues = []string{"-B", "--bind", "--mount", "-H", "--home", "--pwd", "--cwd", "--env", "--env-file", "-W", "--workdir", "-S", "--scratch", "-o", "--overlay", "--network", "--hostname", "--app"} // a table
	srun       = regexp.MustCompile(`^(\s*)srun\b(.*)$`)
)

// body converts the commands of a batch script.
func (d *draft) body(lines []string) string {
	var out []string
	text := continued.ReplaceAllString(strings.Join(lines, "\n"), " ")
	for _, line := range strings.Split(text, "\n") {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "module" || word == "ml":
			d.note("%s: the image has the job's programs", short(strings.TrimSpace(line)))
			continue
		case strings.Contains(line, "$SLURM_SUBMIT_DIR") && word == "cd":
			d.note("%s: the job starts in its volume, /work", short(strings.TrimSpace(line)))
			continue
		}
		if m := srun.FindStringSubmatch(line); m != nil {
			line = m[1] + d.srun(m[2])
		}
		out = append(out, d.container(line))
	}
	text = strings.Join(out, "\n")
	for was, is := range map[string]string{"SLURM_JOB_NUM_NODES": "BEE_NUM_NODES", "SLURM_NNODES": "BEE_NUM_NODES"} {
		text = strings.ReplaceAll(text, was, is)
	}
	if strings.Contains(text, "SLURM_") {
		d.note("variables of Slurm (SLURM_…): only BEE_NUM_NODES, BEE_NODE_RANK and BEE_NODELIST are set everywhere")
	}
	return text
}

// srun makes a parallel start one of mpirun.
func (d *draft) srun(rest string) string {
	words := strings.Fields(rest)
	var dropped []string
	for len(words) > 0 && strings.HasPrefix(words[0], "-") {
		n := 1
		if m := batchOption.FindStringSubmatch(words[0]); m != nil && m[3] == "" && m[2] != "" && batchShort[m[2]] != "" && len(words) > 1 {
			n = 2
		}
		dropped, words = append(dropped, words[:n]...), words[n:]
	}
	d.note("srun%s: mpirun of the image starts the ranks, one for each slot", strings.TrimRight(" "+strings.Join(dropped, " "), " "))
	return "mpirun " + strings.Join(words, " ")
}

// container takes the start of a container out of a line: the job is in one.
func (d *draft) container(line string) string {
	at := starters.FindStringIndex(line)
	if at == nil {
		return line
	}
	rest := strings.Fields(line[at[1]:])
	for len(rest) > 0 && strings.HasPrefix(rest[0], "-") {
		option := rest[0]
		rest = rest[1:]
		if slices.Contains(withValues, option) && len(rest) > 0 {
			option, rest = option+" "+rest[0], rest[1:]
		}
		if option == "--nv" || option == "--rocm" {
			if d.job.GPUs == 0 {
				d.job.GPUs = spec.AllGPUs
			}
			continue
		}
		name, value, _ := strings.Cut(strings.Replace(option, " ", "=", 1), "=")
		if (name == "-B" || name == "--bind") && value != "" {
			for _, b := range strings.Split(value, ",") {
				if !strings.Contains(b, ":") {
					b += ":" + b
				}
				d.volumeOption(name, b)
			}
			continue
		}
		d.note("%s: containers of BEE need no such option", short(option))
	}
	if len(rest) == 0 {
		return line
	}
	if d.job.Image == "" {
		d.image(strings.Trim(rest[0], `"'`))
	}
	return line[:at[0]] + strings.Join(rest[1:], " ")
}

// filesOf adds as inputs the files beside the script that its words name.
func (d *draft) filesOf(script string, there func(string) bool) {
	var found []string
	for line := range strings.Lines(script) {
		words, err := fields.Fields(strings.TrimSpace(line), unexpanded)
		if err != nil {
			words = strings.Fields(line)
		}
		for _, w := range words {
			w = strings.TrimPrefix(w, "./")
			if plainName.MatchString(w) && !slices.Contains(found, w) && there(w) {
				found = append(found, w)
			}
		}
	}
	for _, name := range found {
		d.job.Inputs = append(d.job.Inputs, spec.Input{From: "./" + name, To: "/work/"})
	}
	d.note("Slurm starts a script among its files: name those that it reads in `inputs:`, and those that it writes in `outputs:`")
	if len(found) > 0 {
		d.note("inputs: %s were found in its text", shell.Word(strings.Join(found, ", ")))
	}
}
