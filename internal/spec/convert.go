package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

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

// Convert turns the original BEE launcher's JSON Beefile, which is in a file of
// that name, into ours.
func Convert(file string, data []byte) (Converted, error) {
	old, notes, err := readOld(file, data)
	if err != nil {
		return Converted{}, err
	}
	c := &converter{old: old, notes: notes, target: textOf(old.Task["exec_target"]), volume: defaultVolume, job: yaml.MapSlice{}}
	c.task()
	c.docker()
	c.scripts()
	c.environment()
	c.inputs()
	c.unknown()
	beefile, err := yaml.MarshalWithOptions(c.job, yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		return Converted{}, err
	}
	out := Converted{Beefile: string(beefile)}
	_, err = ParseJob("Beefile", beefile, "/")
	c.mend(err)
	if c.site != nil {
		raw, err := yaml.Marshal(map[string]any{"sites": []any{c.site}})
		if err != nil {
			return Converted{}, err
		}
		out.Sites = string(raw)
		_, err = ParseSites("sites file", raw)
		c.mend(err)
	}
	out.Notes = c.notes
	return out, nil
}

// mend notes what is wrong with what was made, such as a name that ours cannot be.
func (c *converter) mend(err error) {
	var wrong *Errors
	if !errors.As(err, &wrong) {
		return
	}
	for _, p := range wrong.Problems {
		c.note("line %d of the new %s has to be mended: %s.", p.Line, p.File, p.Message)
	}
}

type converter struct {
	old     oldFile
	target  string  // the section of old.Exec that counts; the others are left out
	volume  string  // where all containers have the shared directory
	shared  []Input // what the machines shared with the job
	brought []Input // the scripts
	job     yaml.MapSlice
	site    yaml.MapSlice
	notes   []string
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
	if keep, given := c.old.Task["terminate_after_exec"]; given && !truth(keep) {
		c.note("task_conf.terminate_after_exec false: BEE gives hosts back when a run ends; nothing stays on.")
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
		c.volume = dir
	}
	c.set("workdir", c.volume)
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
			c.shared = []Input{{From: dir, To: c.volume}}
			c.note("exec_env_conf.%s.host_input_dir was shared with the job; ours is copied in. Name what to collect under `outputs:`.", target)
		}
		if target == "bee_vm" {
			c.machine(env)
		}
	case "bee_aws", "bee_os":
		provider := map[string]string{"bee_aws": "aws", "bee_os": "openstack"}[target]
		c.note("exec_target %s: add a site with `provider: %s` to your sites file (docs/how-to/%[2]s.md).", target, provider)
		for _, key := range slices.Sorted(maps.Keys(env)) {
			if key != "num_of_nodes" {
				c.note("exec_env_conf.%s.%s %v was left out: it belongs to that site.", target, key, env[key])
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
	const at = "exec_env_conf.bee_vm"
	sockets, threads := max(c.number(at, env, "cpu_sockets"), 1), max(c.number(at, env, "cpu_thread_per_core"), 1)
	if cores := c.number(at, env, "cpu_core_per_socket"); cores > 0 {
		set("cpus", sockets*cores*threads)
	}
	if sockets > 1 {
		set("sockets", sockets)
	}
	if threads > 1 {
		set("threads", threads)
	}
	if ram := textOf(env["ram_size"]); ram != "" {
		if _, err := strconv.Atoi(ram); err == nil {
			ram += "M" // as QEMU takes it
		}
		set("memory", ram)
	}
	switch textOf(env["kvm_enabled"]) {
	case "false":
		set("accel", "tcg")
	case "true":
		c.note(at + ".kvm_enabled: KVM is used wherever it works.")
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

// numberOf reads a natural number; an error comes with 0.
func numberOf(v any) (int, error) {
	n, err := strconv.ParseUint(textOf(v), 10, 31)
	if err != nil {
		return 0, err
	}
	return int(n), nil
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
