package spec

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/shell"
	"github.com/goccy/go-yaml"
)

// scripts makes one command of the old lists, which is run where the scripts are
// brought to: the old launcher copied each from its own directory into the container.
func (c *converter) scripts() {
	general, parallel := c.list("general_run"), c.list("mpi_run", "num_of_nodes", "proc_per_node")
	for i, s := range general {
		c.ports(fmt.Sprintf("general_run[%d]", i), s)
	}
	for i, s := range parallel {
		c.ports(fmt.Sprintf("mpi_run[%d]", i), s)
	}
	var lines []string
	nodes, ranks := 0, 0
	if truth(c.old.Task["batch_mode"]) {
		lines, nodes = c.batch(general), len(general)
		if len(parallel) > 0 {
			c.note("task_conf.mpi_run was left out, as with batch_mode true, where only general_run counts.")
		}
	} else {
		for _, s := range general {
			lines = append(lines, c.bring(s))
		}
		var under []string
		under, nodes, ranks = c.parallel(parallel)
		lines = append(lines, under...)
	}
	env, at := c.old.Exec[c.target], "exec_env_conf."+c.target
	machines := max(c.number(at, env, "num_of_nodes"), len(namesOf(env["node_list"])))
	if machines > 0 && machines < nodes {
		c.note("the scripts want %d nodes, and exec_env_conf.%s has %d.", nodes, c.target, machines)
	}
	if nodes = max(nodes, machines); nodes > 0 {
		c.set("nodes", nodes)
	}
	if ranks > 0 {
		c.set("ranks_per_node", ranks)
	}
	if len(lines) == 0 {
		c.note("no script is given: the job is the image's own command.")
		return
	}
	c.set("run", strings.Join(lines, "\n")+"\n")
	c.note("scripts are copied from the Beefile's directory into %s and run there. What else they need belongs under `inputs:`, what they make under `outputs:`.", c.volume)
}

// parallel gives the commands of scripts that ran under mpirun, and how many nodes
// and slots on each they want.
func (c *converter) parallel(scripts []map[string]any) (lines []string, nodes, ranks int) {
	type size struct{ nodes, ranks int }
	var sizes []size
	for i, s := range scripts {
		at := fmt.Sprintf("mpi_run[%d]", i)
		sizes = append(sizes, size{c.number(at, s, "num_of_nodes"), c.number(at, s, "proc_per_node")})
		nodes, ranks = max(nodes, sizes[i].nodes), max(ranks, sizes[i].ranks)
	}
	for i, s := range scripts {
		n, p, command := sizes[i].nodes, sizes[i].ranks, c.bring(s)
		if n > 0 && p > 0 {
			lines = append(lines, fmt.Sprintf("mpirun -n %d %s", n*p, command))
		} else {
			lines = append(lines, "mpirun "+command)
		}
		if n > 1 && p > 0 && p < ranks {
			c.note("mpi_run[%d] had %d processes on each of %d hosts, and mpirun fills the %d slots of one host before it takes the next: add `--map-by ppr:%d:node` to its line for Open MPI, or `-ppn %d` for MPICH and Intel MPI.", i, p, n, ranks, p, p)
		}
	}
	return lines, nodes, ranks
}

// batch gives the commands that start each script on a node of its own, all at once,
// and end when the last of them has, with the code of one that failed.
func (c *converter) batch(scripts []map[string]any) []string {
	if len(scripts) == 0 {
		return nil
	}
	lines, ends := []string{"IFS=,", "set -- $BEE_NODELIST"}, []string{"code=0"}
	for i, s := range scripts {
		lines = append(lines, fmt.Sprintf(`/.bee/rsh "${%d}" %s & p%[1]d=$!`, i+1, shell.Quote(c.bring(s))))
		ends = append(ends, fmt.Sprintf("wait $p%d || code=$?", i+1))
	}
	return append(append(lines, ends...), "exit $code")
}

// bring has a script brought to the volume, and gives the command that runs it there.
func (c *converter) bring(s map[string]any) string {
	from := textOf(s["script"])
	name := path.Base(from)
	for i := 2; slices.ContainsFunc(c.brought, func(b Input) bool { return b.From != from && b.To == c.volume+"/"+name }); i++ {
		name = fmt.Sprintf("%d-%s", i, path.Base(from))
	}
	if b := (Input{From: from, To: c.volume + "/" + name}); !slices.Contains(c.brought, b) {
		c.brought = append(c.brought, b)
	}
	if plain := regexp.MustCompile(`^[\w.@%+=:,-]+$`); !plain.MatchString(name) {
		return shell.Quote("./" + name)
	}
	return "./" + name
}

// inputs lists what is brought to the job: what the machines shared with it, then the
// scripts.
func (c *converter) inputs() {
	var inputs []yaml.MapSlice
	for _, b := range append(c.shared, c.brought...) {
		inputs = append(inputs, yaml.MapSlice{{Key: "from", Value: b.From}, {Key: "to", Value: b.To}})
	}
	if len(inputs) > 0 {
		c.set("inputs", inputs)
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
