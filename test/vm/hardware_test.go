package vm

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestHardwareOfVirtualMachines: what the Beefile says is what the guest has,
// seen from the inside, and from the outside where that is the place to look. (Huge pages
// are in TestAnImagesUserInVirtualMachines.) There are machines because containers cannot run here: the
// runtime that the Beefile names does not answer.
func TestHardwareOfVirtualMachines(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	b.Env = append(b.Env, "DOCKER_HOST=unix://"+filepath.Join(b.Dir, "none"))
	disk := filepath.Join(b.Work, "reference.img")
	b.File("tree/word", "from the host\n")
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", filepath.Join(b.Work, "tree"), disk, "16M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	job := b.File("job.yaml", fmt.Sprintf(`name: hardware
`+build+`
runtime: docker
vm:
  when: auto
  cpus: 2
  threads: 2
  memory: 800M
  cpu: Nehalem
  pin: true
  bridge: true
  disks: [{size: 3G, to: /scratch}, {from: %s, to: /reference}]
volume: /data
run: |
  set -e
  lscpu; grep MemTotal /proc/meminfo
  cat /reference/word; echo mine > /scratch/word; df -m --output=size /scratch | tail -n 1
  if touch /reference/new; then echo writable; fi
  socat TCP-LISTEN:7000,fork SYSTEM:'echo the job' &
  touch /data/up; sleep 1000
`, disk))
	id := strings.TrimSpace(b.Must("run", "--detach", job))
	awaitFile(t, b, id, "/data/up")
	if testkit.Events(b, id, event.KindVMUsed, `"message":`) == 0 {
		t.Errorf("nobody says why there are machines:\n%s", b.Must("show", id))
	}
	printed := b.Must("logs", id)
	fields := strings.Join(strings.Fields(printed), " ")
	for _, want := range []string{"CPU(s): 2 ", "Thread(s) per core: 2 ", "Core(s) per socket: 1 ", "Socket(s): 1 ", "Nehalem", "from the host"} {
		if !strings.Contains(fields, want) {
			t.Errorf("the guest does not say %q:\n%s", want, printed)
		}
	}
	if strings.Contains(printed, "writable") {
		t.Error("an image of the host can be written to")
	}
	if kib := testkit.Number(t, printed, `MemTotal:\s+(\d+) kB`); kib < 700<<10 || kib > 800<<10 {
		t.Errorf("it has %v KiB of memory", kib)
	}
	if mib := testkit.Number(t, printed, `(?m)^ *(\d+)$`); mib < 2800 || mib > 3100 {
		t.Errorf("the empty disk has %v MiB", mib)
	}
	const bridged = `docker run --rm --entrypoint sh "$(docker ps --format '{{.Image}}')" -c 'hostname -i; socat -u TCP:172.17.0.1:7000 -'`
	if got := b.Must("vm", "shell", id, "--", "sh", "-c", bridged); got != "172.17.0.2\nthe job\n" {
		t.Errorf("a container on docker's own network says %q", got)
	}
	machines := machinesOf(id)
	if len(machines) != 1 {
		t.Fatalf("there are machines %v", machines)
	}
	if got := bindings(t, machines[0]); len(got) != 2 || got[0] == got[1] || strings.ContainsAny(got[0]+got[1], ",-") {
		t.Errorf("the processors are bound to %q", got)
	}
	b.Must("stop", id)
	t.Run("without a container", func(t *testing.T) { checkBare(t, b, "virtio") })
	t.Run("without a container, with emulated devices", func(t *testing.T) {
		testkit.Long(t, "TestCommand of internal/vm/qemu: its image takes a minute to build")
		checkBare(t, b, "emulated")
	})
}

// checkBare has a study try a guest whose programs run in no container. Its long form measures:
// they are the same files as on the bare host, which a guest reads in the block that warms up,
// and knows in the next.
func checkBare(t *testing.T, b *testkit.Bee, devices string) {
	t.Helper()
	file := b.File(devices+".yaml", `study: bare
job: {`+build+`, run: "sleep 3; true"}
environments: {native: {runtime: native}, bare: {runtime: native, rdma: soft, vm: {memory: 800M, cpus: 1, devices: `+devices+`}}}
metrics: {seconds: {builtin: seconds}}
method: {blocks: 1}
`)
	if !testkit.Everything() {
		var plan struct {
			Environments []struct {
				Dropped string `json:"dropped"`
			} `json:"environments"`
		}
		b.JSON(&plan, "bench", "plan", "--json", file)
		if e := plan.Environments; len(e) != 2 || e[0].Dropped+e[1].Dropped != "" {
			t.Errorf("a guest with %s devices and no container: %+v", devices, e)
		}
		return
	}
	out := filepath.Join(b.Dir, devices)
	b.Must("bench", "run", "--wait", "0s", file, "-o", out)
	raw, err := os.ReadFile(filepath.Join(out, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]map[string]bool{} // the digests of the shell and libc, by environment
	for line := range strings.Lines(string(raw)) {
		var row struct {
			Environment, Status, Error string
			Block                      int
			Programs                   map[string]string
			VMCommand                  string `json:"vm_command"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Status != "ok" {
			t.Fatalf("%s with %s devices: %s %s, %v", row.Environment, devices, row.Status, row.Error, err)
		}
		if seen[row.Environment] == nil {
			seen[row.Environment] = map[string]bool{}
		}
		for path, sum := range row.Programs {
			if name := filepath.Base(path); name == "dash" || name == "libc.so.6" {
				seen[row.Environment][name+" "+sum] = true
			}
		}
		if guest := row.Environment == "bare" && row.Block == 0; strings.Contains(row.VMCommand, "qemu-system") != guest {
			t.Errorf("block %d of %s has the command line %q", row.Block, row.Environment, row.VMCommand)
		}
		if row.Environment == "bare" && len(row.Programs) == 0 {
			t.Errorf("no program of the guest was seen: %s", line)
		}
	}
	if len(seen["bare"]) != 2 || !maps.Equal(seen["bare"], seen["native"]) {
		t.Errorf("with %s devices, the shell and libc are %v; expected the same two files", devices, seen)
	}
}

// setHugePages sets huge pages aside until the test ends, where we may.
func setHugePages(t *testing.T, pages int) bool {
	const setting = "/proc/sys/vm/nr_hugepages"
	before, err := os.ReadFile(setting)
	if err != nil || os.WriteFile(setting, []byte(strconv.Itoa(pages)), 0o644) != nil {
		return false
	}
	t.Cleanup(func() { os.WriteFile(setting, before, 0o644) }) //nolint:errcheck // it could be written before
	now, err := os.ReadFile(setting)
	return err == nil && strings.TrimSpace(string(now)) == strconv.Itoa(pages)
}

// bindings are the host's processors on which those of a machine may run.
func bindings(t *testing.T, pid int) []string {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range names {
		raw, _ := os.ReadFile(name)
		if !strings.HasPrefix(string(raw), "CPU ") {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		_, rest, _ := strings.Cut(string(status), "Cpus_allowed_list:")
		list = append(list, strings.Fields(rest)[0])
	}
	return list
}

// TestHardwareThatIsNotThere is refused with the reason, before it costs time.
func TestHardwareThatIsNotThere(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2}\n")
	for name, c := range map[string]struct{ vm, want string }{
		"memory":     {"{memory: 900T}", "`vm: {memory: …}`"},
		"processors": {"{memory: 512M, cpus: 4000, pin: true}", " 8000 "},
		"model":      {"{memory: 512M, cpu: Unheard}", "-cpu help"},
		"sockets":    {"{memory: 512M, cpus: 4000}", "`vm: {cpus: …}`"},
		"disk":       {"{memory: 512M, disks: [{from: /nowhere.img, to: /a}]}", "/nowhere.img"},
		"huge pages": {"{memory: 600G, huge_pages: true}", "`huge_pages`"},
	} {
		job := b.File("job.yaml", build+"\nnodes: 2\nrun: [\"true\"]\nvm: "+c.vm+"\n")
		if r := b.Try("--sites", sites, "run", "-q", job); r.Code != 204 || !strings.Contains(r.Stderr, c.want) || strings.Contains(r.Stderr, "connection reset") {
			t.Errorf("%s: %d, %s", name, r.Code, r.Stderr)
		}
	}
}
