package e2e

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// mistake is what a newcomer may write, and the key or command that the answer has to name.
type mistake struct {
	name    string
	beefile string // "": none is named
	args    []string
	next    string
}

func key(line, next string) mistake {
	return mistake{line, "image: debian:12\nrun: ./a\n" + line + "\n", []string{"check", "job.yaml"}, next}
}

func typed(line, next string) mistake { return mistake{"bee " + line, "", strings.Fields(line), next} }

// TestFortyMistakes: each ends in a message that names the next key or command, and shows
// nothing of how BEE is made.
func TestFortyMistakes(t *testing.T) {
	bee := testkit.NewBee(t)
	for name, text := range map[string]string{
		"batch.sh": "#!/bin/bash\n#SBATCH -N 2\nsrun ./a\n", "script.sh": "#!/bin/sh\n./a\n", "Dockerfile": "FROM debian:12\n",
		"compose.yaml": "services: {app: {image: debian:12}}\n", "k8s.yaml": "apiVersion: batch/v1\nkind: Job\n", "sky.yaml": "resources: {accelerators: A100}\nrun: x\n",
		"sites.yaml": "sites: [{name: lab, provider: local}]\n", "app.def": "Bootstrap: docker\nFrom: debian:12\n", "ok.yaml": "image: debian:12\nrun: ./a\n",
		"lab.yaml": "image: debian:12\nsites: [lba]\n", "app.tgz": "\x1f\x8b\x08\x00", "dir/job.yaml": "image: debian:12\n", "code/x.py": "print()\n",
	} {
		bee.File(name, text)
	}
	for _, m := range []mistake{
		// Slurm's
		key("partition: gpu", "slurm: {partition:"),
		key("account: phys", "slurm: {account:"),
		key("ntasks: 8", "ranks_per_node:"),
		key("ntasks-per-node: 8", "ranks_per_node:"),
		key("gres: gpu:1", "gpus:"),
		key("job-name: md", "name:"),
		key("walltime: 4:00:00", "time: 30m"),
		key("array: 1-10", "cases: {i: {from: 1, to: 10}}"),
		key("dependency: afterok:1", "after: [RUN]"),
		key("output: out.txt", "bee logs"),
		typed("run --partition gpu debian:12", "--site"),
		typed("run -N 2 debian:12", "-n"),
		typed("run --gres=gpu:1 debian:12", "--gpus"),
		typed("run batch.sh", "bee init --from batch.sh"),
		typed("sbatch job.yaml", "run"),
		typed("squeue", "ps"),
		typed("scancel 1", "stop"),
		typed("sinfo", "doctor"),
		typed("srun ls", "Did you mean run?"),
		typed("queue", "ps"),
		typed("run --mpi=pmix debian:12", "mpirun"),
		typed("run --wrap ls", "IMAGE COMMAND"),
		typed("ps --state done", "succeeded"),
		// docker's, compose's and those of others
		key("volumes: [/data:/data]", "mounts:"),
		key("command: ./a", "run:"),
		key("working_dir: /w", "workdir:"),
		key("env_file: vars", "--env-file"),
		key("restart: always", "retry:"),
		key("replicas: 2", "nodes:"),
		key("num_nodes: 2", "nodes:"),
		key("file_mounts: {/a: ./a}", "inputs:"),
		key("services: {a: {}}", "image:"),
		key("cpus: 8", "cores: 8"),
		typed("run -dit debian:12 bash", "bee exec -it"),
		typed("run --mount type=bind debian:12", "-v HOST:PATH"),
		typed("run -l a=b debian:12", "--label"),
		typed("run -v ok.yaml", "--verbose"),
		typed("run -v /data debian:12", "HOST"),
		typed("run --gpus some debian:12", "all"),
		typed("pull debian:12", "image"),
		typed("inspect x", "show"),
		typed("compose up", "bee init --from"),
		typed("restart x", "--again"),
		typed("tag a b", "image"),
		typed("port a 80", "forward"),
		typed("ps --filter status=failed", "--state"),
		typed("logs -n 5 x", "--tail"),
		typed("run --device /dev/kfd debian:12", "--gpus"),
		typed("debian:12 ls", "bee run debian:12"),
		typed("run nowhere.tar", "write docker-archive:nowhere.tar"),
		typed("run app.tgz", "bee run docker-archive:app.tgz"),
		typed("run compose.yaml", "bee init --from compose.yaml"),
		typed("run k8s.yaml", "image:"),
		typed("run Dockerfile", "build:"),
		typed("run app.def", "bee init --from app.def"),
		// typing errors
		key("imgae: x", "image"),
		key("run: [echo a, echo b]", "run: |"),
		key("entrypoint: [sh -c]", "entrypoint"),
		key("env: [A=1]", "env"),
		key("nodes: two", "nodes"),
		key("timeout: 30", "30m"),
		key("time: 30", "30m"),
		key("memory: 16", "16G"),
		typed("run --cpus 8 debian:12", "--cores"),
		typed("run -m 4G debian:12", "--memory"),
		typed("run nowhere.yaml", "Beefile"),
		typed("run -v nowhere.yaml", "--verbose"),
		typed("run dir", "bee run dir/job.yaml"),
		typed("run code", "bee init"),
		typed("ok.yaml", "bee run ok.yaml"),
		typed("run ./nowhere", "Beefile"),
		typed("run ok.yaml ./b", "run:"),
		typed("run --detahc ok.yaml", "--detach"),
		typed("run --sites sites.yaml lab.yaml", "lab"),
		typed("run sites.yaml", "--sites"),
		typed("run", "--help"),
		typed("shwo", "show"),
		typed("logs nothing", "bee ps"),
		typed("exec nothing ls", "bee ps"),
	} {
		t.Run(m.name, func(t *testing.T) {
			if m.beefile != "" {
				text := m.beefile
				if strings.HasPrefix(m.name, "run:") {
					text = strings.Replace(text, "run: ./a\n", "", 1)
				}
				bee.File("job.yaml", text)
			}
			r := bee.Try(m.args...)
			if r.Code != 201 && r.Code != 202 || !strings.Contains(r.Stderr, m.next) {
				t.Errorf("code %d, and no %q in:\n%s", r.Code, m.next, r.Stderr)
			}
			for _, internal := range []string{".sock", "/proc/", "internal/", "goroutine", "strconv", "cobra", bee.Dir + "/state"} {
				if strings.Contains(r.Stderr, internal) {
					t.Errorf("shows %q:\n%s", internal, r.Stderr)
				}
			}
		})
	}
}
