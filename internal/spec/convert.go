package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/goccy/go-yaml"
)

// Converted is what Convert made of the original BEE launcher's Beefile.
type Converted struct {
	// Beefile and Sites are our two files; Sites is empty where the old file
	// names no machines.
	Beefile string
	Sites   string
	// Notes say, each in a sentence, what could not be carried over and why.
	Notes []string
}

// oldFile is the original launcher's JSON (github.com/lanl/BEE, bee-launcher).
type oldFile struct {
	Task   map[string]any            `json:"task_conf"`
	Docker map[string]any            `json:"docker_conf"`
	Exec   map[string]map[string]any `json:"exec_env_conf"`
}

// Convert turns the original BEE launcher's JSON Beefile into ours.
func Convert(data []byte) (Converted, error) {
	var old oldFile
	if err := json.Unmarshal(data, &old); err != nil {
		return Converted{}, &core.Error{Kind: core.Invalid, Op: "read the old Beefile", Err: err, Remedy: "It has to be the JSON file of the original BEE launcher."}
	}
	if old.Task == nil {
		return Converted{}, &core.Error{Kind: core.Invalid, Op: "read the old Beefile", Err: errors.New("it has no task_conf"), Remedy: "It has to be the JSON file of the original BEE launcher."}
	}
	c := &converter{old: old, target: textOf(old.Task["exec_target"]), job: yaml.MapSlice{}}
	c.task()
	c.docker()
	c.scripts()
	c.environment()
	c.unknown()
	beefile, err := yaml.Marshal(c.job)
	if err != nil {
		return Converted{}, err
	}
	out := Converted{Beefile: string(beefile), Notes: c.notes}
	if c.site != nil {
		raw, err := yaml.Marshal(map[string]any{"sites": []any{c.site}})
		if err != nil {
			return Converted{}, err
		}
		out.Sites = string(raw)
	}
	return out, nil
}

type converter struct {
	old    oldFile
	target string // the section of old.Exec that counts; the others are left out
	job    yaml.MapSlice
	site   yaml.MapSlice
	notes  []string
}

func (c *converter) set(key string, value any) {
	c.job = append(c.job, yaml.MapItem{Key: key, Value: value})
}

func (c *converter) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

func (c *converter) task() {
	if name := textOf(c.old.Task["task_name"]); name != "" {
		c.set("name", name)
	}
}

func (c *converter) docker() {
	if tag := textOf(c.old.Docker["docker_img_tag"]); tag != "" {
		c.set("image", tag)
	} else {
		c.note("docker_conf.docker_img_tag is missing: add `image:`.")
	}
	if user := textOf(c.old.Docker["docker_username"]); user == "root" {
		c.set("user", "root")
	} else if user != "" {
		c.note("docker_conf.docker_username %q: containers run under your own uid; the name has no use.", user)
	}
	if dir := textOf(c.old.Docker["docker_shared_dir"]); dir != "" {
		c.set("volume", dir)
		c.set("workdir", dir)
	}
}

// scripts makes one command of the old lists: the sequential ones first, then
// those under mpirun, as the old launcher ran them.
func (c *converter) scripts() {
	var lines []string
	nodes, ranks := 0, 0
	for i, s := range listOf(c.old.Task["general_run"]) {
		lines = append(lines, "./"+textOf(s["script"]))
		c.ports(fmt.Sprintf("general_run[%d]", i), s)
	}
	parallel := listOf(c.old.Task["mpi_run"])
	for _, s := range parallel {
		nodes, ranks = max(nodes, numberOf(s["num_of_nodes"])), max(ranks, numberOf(s["proc_per_node"]))
	}
	for i, s := range parallel {
		n, p, where := numberOf(s["num_of_nodes"]), numberOf(s["proc_per_node"]), fmt.Sprintf("mpi_run[%d]", i)
		script := textOf(s["script"])
		if n > 0 && p > 0 {
			lines = append(lines, fmt.Sprintf("mpirun -n %d ./%s", n*p, script))
		} else {
			lines = append(lines, "mpirun ./"+script)
		}
		if n > 1 && p > 0 && p < ranks {
			c.note("%s had %d processes on each of %d hosts, and mpirun fills the %d slots of one host before it takes the next: add `--map-by ppr:%d:node` to its line for Open MPI, or `-ppn %d` for MPICH and Intel MPI.", where, p, n, ranks, p, p)
		}
		c.ports(where, s)
	}
	env := c.old.Exec[c.target]
	nodes = max(nodes, numberOf(env["num_of_nodes"]), len(namesOf(env["node_list"])))
	if nodes > 0 {
		c.set("nodes", nodes)
	}
	if ranks > 0 {
		c.set("ranks_per_node", ranks)
	}
	if len(lines) > 0 {
		c.set("run", strings.Join(lines, "\n")+"\n")
		c.note("scripts ran in the shared directory: list the files that they need under `inputs:`.")
	}
	if textOf(c.old.Task["batch_mode"]) == "false" || c.old.Task["batch_mode"] == false {
		c.note("task_conf.batch_mode false (stay for interactive work) is what `bee exec RUN -- COMMAND` is for.")
	}
	if textOf(c.old.Task["terminate_after_exec"]) == "false" || c.old.Task["terminate_after_exec"] == false {
		c.note("task_conf.terminate_after_exec false: BEE gives hosts back when a run ends; nothing stays on.")
	}
}

func (c *converter) ports(where string, s map[string]any) {
	network := "containers use the host's network, so ports are the host's own; use `ssh -L` or `ssh -R` to reach them from elsewhere"
	if c.target == "bee_vm" {
		network = "containers use the guest's network, so ports are the guest's own; use `ssh -L` or `ssh -R` with what `bee ssh --config RUN` prints to reach them"
	}
	for _, key := range []string{"local_port_fwd", "remote_port_fwd"} {
		if list, ok := s[key].([]any); ok && len(list) > 0 {
			c.note("%s.%s %v: %s.", where, key, list, network)
		}
	}
}

// environment turns the machines of the old file into a site.
func (c *converter) environment() {
	target, env := c.target, c.old.Exec[c.target]
	hosts := namesOf(env["node_list"])
	switch target {
	case "bee_vm", "bee_charliecloud":
		if len(hosts) > 0 {
			c.site = yaml.MapSlice{{Key: "name", Value: "cluster"}, {Key: "provider", Value: "ssh"}, {Key: "hosts", Value: hosts}}
			c.set("sites", []string{"cluster"})
		}
		if target == "bee_charliecloud" && c.site != nil {
			c.site = append(c.site, yaml.MapItem{Key: "runtime", Value: "charliecloud"})
		}
		if dir := textOf(env["host_input_dir"]); dir != "" {
			volume := textOf(c.old.Docker["docker_shared_dir"])
			if volume == "" {
				volume = "/work"
			}
			c.set("inputs", []any{yaml.MapSlice{{Key: "from", Value: dir}, {Key: "to", Value: volume}}})
			c.note("exec_env_conf.%s.host_input_dir was shared with the job; ours is copied in. Name what to bring back under `outputs:`.", target)
		}
		if target == "bee_vm" {
			c.machine(env)
		}
	case "bee_aws", "bee_os":
		c.note("exec_target %s: this version has no provider for it; sites are `local`, `ssh` or `slurm`.", target)
		for _, key := range slices.Sorted(maps.Keys(env)) {
			if key != "num_of_nodes" {
				c.note("exec_env_conf.%s.%s %v was not carried over, for the same reason.", target, key, env[key])
			}
		}
	case "":
		c.note("task_conf.exec_target is missing: the job will run on the sites of your sites file.")
	default:
		c.note("exec_target %q is not known.", target)
	}
}

// machine turns the hardware of the old file's virtual machines into ours.
func (c *converter) machine(env map[string]any) {
	vm := yaml.MapSlice{}
	set := func(key string, value any) { vm = append(vm, yaml.MapItem{Key: key, Value: value}) }
	sockets, threads := max(numberOf(env["cpu_sockets"]), 1), max(numberOf(env["cpu_thread_per_core"]), 1)
	if cores := numberOf(env["cpu_core_per_socket"]); cores > 0 {
		set("cpus", sockets*cores*threads)
	}
	if sockets > 1 {
		set("sockets", sockets)
	}
	if threads > 1 {
		set("threads", threads)
	}
	if ram := textOf(env["ram_size"]); ram != "" {
		set("memory", ram)
	}
	switch textOf(env["kvm_enabled"]) {
	case "false":
		set("accel", "tcg")
	case "true":
		c.note("exec_env_conf.bee_vm.kvm_enabled: KVM is used wherever it works.")
	}
	if len(vm) == 0 {
		c.set("vm", true)
		return
	}
	c.set("vm", vm)
}

// unknown notes the settings of other targets, and what the original launcher did not
// know either.
func (c *converter) unknown() {
	c.unknownIn("task_conf", c.old.Task, "task_name", "exec_target", "batch_mode", "general_run", "mpi_run", "terminate_after_exec")
	c.unknownIn("docker_conf", c.old.Docker, "docker_img_tag", "docker_username", "docker_shared_dir")
	for _, target := range slices.Sorted(maps.Keys(c.old.Exec)) {
		switch at := "exec_env_conf." + target; {
		case target != c.target:
			c.note("%s was left out, as exec_target is %q.", at, c.target)
		case target == "bee_vm":
			c.unknownIn(at, c.old.Exec[target], "node_list", "cpu_core_per_socket", "cpu_thread_per_core", "cpu_sockets", "ram_size", "kvm_enabled", "host_input_dir")
		case target == "bee_charliecloud":
			c.unknownIn(at, c.old.Exec[target], "node_list", "host_input_dir")
		}
	}
}

// unknownIn notes the keys of a section that are none of those known.
func (c *converter) unknownIn(section string, keys map[string]any, known ...string) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			c.note("%s.%s is not known and was left out.", section, key)
		}
	}
}

func textOf(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(x)
	}
	return ""
}

// numberOf reads a number that the old files often have as text.
func numberOf(v any) int {
	n, err := strconv.Atoi(textOf(v))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func namesOf(v any) []string {
	list, _ := v.([]any)
	var names []string
	for _, e := range list {
		if s := textOf(e); s != "" {
			names = append(names, s)
		}
	}
	return names
}

func listOf(v any) []map[string]any {
	list, _ := v.([]any)
	var out []map[string]any
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}
