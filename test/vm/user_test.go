package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// guestsView is what `bee show --json` has of guests that start.
type guestsView struct {
	Attempts []struct{ Runtime, Starting string }
}

// TestAnImagesUserInVirtualMachines: processes are whom the image names, on both nodes
// and in a volume of either kind; outside, and in what they write, they are the caller.
// The image is as it was for who runs it in the guest itself. Root has one node, and huge
// pages, which only root can set aside.
func TestAnImagesUserInVirtualMachines(t *testing.T) {
	testkit.AsRootToo(t)
	if os.Geteuid() == 0 {
		testkit.Long(t, "TestAnImagesUserInVirtualMachines, as an ordinary user")
	}
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	kind, other, nodes, huge := "dataimage", "lab-1", 2, false
	if os.Geteuid() == 0 {
		kind, other, nodes, huge = "virtio", "lab-0", 1, setHugePages(t, 560)
	}
	sites := b.File("sites.yaml", fmt.Sprintf("sites: [{name: lab, provider: local, hosts: %d}]\n", nodes))
	b.File("input", "from home\n")
	app := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}, User: "app"})
	job := b.File("job.yaml", "name: user\nimage: docker-archive:"+app+`
vm: {cpus: 1, memory: 1G, huge_pages: `+strconv.FormatBool(huge)+`}
nodes: `+strconv.Itoa(nodes)+`
volume: `+kind+`
workdir: /work
inputs: [{from: ./input, to: /work/}]
run: |
  set -e
  id -un; id -gn; echo $HOME; cat ~/own input; echo more >> input; echo x > ~/new
  mkdir -p dir; echo one > dir/mine; chmod 600 dir/mine
  /.bee/rsh `+other+` 'id -un; cat /work/dir/mine; echo two >> /work/dir/mine; echo y > /work/dir/other; stat -c %U /work/dir/other'
  cat dir/other; rm dir/other
  touch up; until [ -e go ]; do sleep 1; done
outputs: [{from: /work/dir, to: ./results}, {from: /work/input, to: ./results}]
`)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	testkit.Eventually(t, 10*time.Minute, func() error { // the guests take longer than it takes to look
		var v guestsView
		if b.JSON(&v, "show", "--json", id); len(v.Attempts) == 0 || v.Attempts[0].Starting == "" && v.Attempts[0].Runtime != "vm" {
			return b.Explained(id, "the progress of its guests is not shown yet")
		} else if v.Attempts[0].Runtime == "vm" {
			t.Errorf("the progress of its guests was not shown before they were up:\n%s", b.Must("show", id))
		}
		return nil
	})
	awaitFile(t, b, id, "/work/up")
	var v guestsView
	if b.JSON(&v, "show", "--json", id); v.Attempts[0].Starting != "" {
		t.Errorf("guests that are up are shown as starting:\n%s", b.Must("show", id))
	}
	if machines := machinesOf(id); huge && len(machines) == 1 {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", machines[0]))
		if err != nil {
			t.Fatal(err)
		}
		if kib := testkit.Number(t, string(raw), `_Hugetlb: +([1-9]\d*) kB`); kib < 900<<10 {
			t.Errorf("%v KiB of it lie in huge pages", kib)
		}
	} else if len(machines) != nodes {
		t.Errorf("there are machines %v", machines)
	}
	const by = `docker run --rm --network host --entrypoint sh `
	const docker = `image=$(docker ps --format '{{.Image}}'); ` + by + `${image%-user} -c 'id -un; cat ~/own' && ` + by + `$image -c 'id -u; cat /home/app/own'; docker logs $(docker ps -q) 2>&1; true`
	if got, want := b.Must("vm", "shell", id, "--", "sh", "-c", docker), "app\napp's\n"+strconv.Itoa(os.Getuid())+"\napp's\nError response from daemon: configured logging driver does not support reading\n"; got != want {
		t.Errorf("run by hand the image says %q, want %q", got, want)
	}
	checkHome(t, b, id)
	if got := b.Must("exec", id, "--", "sh", "-c", "id -un; touch /work/go"); got != "app\n" {
		t.Errorf("beside the job we are %q", got)
	}
	if v := b.Await(id, 2*time.Minute); v.State != "succeeded" {
		t.Fatalf("it ended so: %+v", v)
	}
	if got := b.Must("logs", id); got != "app\nteam\n/home/app\napp's\nfrom home\napp\none\napp\ny\n" {
		t.Errorf("the job says %q", got)
	}
	if got := b.Read("results/dir/mine") + b.Read("results/input"); got != "one\ntwo\nfrom home\nmore\n" {
		t.Errorf("home come %q", got)
	}
	info, err := os.Stat(filepath.Join(b.Work, "results/dir/mine"))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() || info.Mode().Perm() != 0o600 {
		t.Errorf("what comes home is not the caller's alone: %+v, %v", info, err)
	}
}
