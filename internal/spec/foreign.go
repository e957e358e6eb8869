package spec

import (
	"reflect"
	"slices"
	"strings"
)

// foreignKey is what a Beefile has in place of a key of other tools.
type foreignKey struct {
	// names are its spellings, with - for _ as well.
	names []string
	hint  string
}

// foreignKeys are the keys of Slurm, docker, compose files, SkyPilot and Kubernetes that
// people write into a Beefile.
var foreignKeys = []foreignKey{ // a table
	{[]string{"cpus", "cpus_per_task", "cores_per_node", "cpu", "ncpus"}, "write `cores: 8`, which is per node"},
	{[]string{"mem", "mem_per_cpu", "mem_limit", "ram"}, "write `memory: 16G`, which is per node"},
	{[]string{"time_limit", "walltime", "time_min"}, "write `time: 30m`, which each attempt asks of a queue"},
	{[]string{"active_deadline_seconds", "activeDeadlineSeconds"}, "write `timeout: 30m`, which ends the command, or `time: 30m`, which each attempt asks of a queue"},
	{[]string{"ntasks_per_node", "tasks_per_node", "ppn", "processes_per_node", "procs_per_node"}, "write `ranks_per_node: 8`"},
	{[]string{"ntasks", "tasks", "np", "ranks"}, "write `nodes: 2` and `ranks_per_node: 8`"},
	{[]string{"partition", "queue"}, "it belongs in the sites file: `slurm: {partition: …}`"},
	{[]string{"account"}, "it belongs in the sites file: `slurm: {account: …}`"},
	{[]string{"qos"}, "it belongs in the sites file: `slurm: {qos: …}`"},
	{[]string{"constraint", "reservation", "exclusive", "licenses"}, "it belongs in the sites file, among the options of sbatch: `slurm: {options: […]}`"},
	{[]string{"gres", "gpus_per_node", "gpus_per_task", "accelerators"}, "write `gpus: 1`, which is per node, or `gpus: all`"},
	{[]string{"job_name", "container_name"}, "write `name: …`"},
	{[]string{"output", "error", "stdout", "stderr"}, "`bee logs RUN` shows what the job prints; `outputs:` collects its files"},
	{[]string{"array"}, "write `array: {cases: {i: {from: 1, to: 10}}}`, and `${case.i}` in `run:`"},
	{[]string{"dependency", "depends_on"}, "write `after: [RUN]`"},
	{[]string{"mail_type", "mail_user"}, "write `notify: [{mail: you@example.org}]`"},
	{[]string{"modules", "module"}, "the image has the job's programs; leave it out"},
	{[]string{"chdir", "working_dir", "workingDir", "cwd"}, "write `workdir: …`, a path in the container"},
	{[]string{"requeue", "restart", "restart_policy", "restartPolicy", "backoff_limit", "backoffLimit", "max_restarts"}, "write `retry: 3`"},
	{[]string{"command", "cmd", "script", "commands"}, "write `run: …`"},
	{[]string{"args", "arguments"}, "write the whole command as `run: [program, argument]`"},
	{[]string{"volumes", "bind", "binds", "volume_mounts", "volumeMounts"}, "write `mounts: [{from: /project/data, to: /data}]` for a directory of the site, or `inputs:` for files of yours"},
	{[]string{"file_mounts", "storage_mounts", "copy", "files"}, "write `inputs: [{from: ./data, to: /work}]`"},
	{[]string{"envs", "environ", "variables"}, "write `env: {KEY: value}`"},
	{[]string{"env_file"}, "give it to the command: `bee run --env-file FILE job.yaml`"},
	{[]string{"ports", "expose", "publish", "publish_all"}, "leave it out: the network of a job is that of its hosts"},
	{[]string{"network_mode", "networks", "network", "add_host", "hostname", "dns", "links"}, "leave it out: the network of a job is that of its hosts"},
	{[]string{"privileged", "cap_add", "cap_drop", "security_opt", "devices", "ipc", "pid", "ulimits", "shm_size"}, "leave it out: containers of BEE need no such rights, and have the hosts' shared memory"},
	{[]string{"services"}, "this is a compose file; a Beefile has the keys of one service, beginning with `image:`"},
	{[]string{"version"}, "leave it out"},
	{[]string{"num_nodes", "replicas", "parallelism", "completions", "node_count"}, "write `nodes: 2`"},
	{[]string{"resources", "deploy", "limits", "requests"}, "write `cores: 8`, `memory: 16G` and `gpus: 1`, which are per node"},
	{[]string{"cloud", "region", "zone", "host", "hosts", "cluster"}, "name a site of the sites file: `sites: [lab]`"},
	{[]string{"apiVersion", "kind", "metadata", "spec", "containers", "template"}, "this is a manifest of Kubernetes; a Beefile begins with `image:` and `run:`"},
	{[]string{"healthcheck", "logging", "labels_file", "profiles"}, "leave it out: a run ends when its command does"},
	{[]string{"tty", "stdin_open"}, "give `bee run` the flags -i and -t"},
	{[]string{"slurm", "provider", "login", "slot"}, "it belongs in the sites file"},
	{[]string{"before_script", "pre"}, "write `setup: …`"},
	{[]string{"after_script", "epilog"}, "write `post: …`"},
}

// ForeignHint returns what a Beefile has in place of a key of another tool, or "".
func ForeignHint(key string) string { return foreignHint(reflect.TypeFor[Job](), key) }

// foreignHint is the hint for a key of another tool at the top of a Beefile, or "".
func foreignHint(into reflect.Type, key string) string {
	if hint := laterHint(into, key); hint != "" {
		return hint
	}
	if into != reflect.TypeFor[Job]() {
		return ""
	}
	plain := strings.ReplaceAll(key, "-", "_")
	for _, f := range foreignKeys {
		if slices.Contains(f.names, plain) {
			return f.hint
		}
	}
	return ""
}
