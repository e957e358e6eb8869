package e2e

import (
	"strings"
	"testing"
	"time"
)

const eachHostWrites = `for h in $(echo $BEE_NODELIST | tr , ' '); do /.bee/rsh $h 'echo '$h' > /work/part-'$h; done`

// TestPostSeesTheFilesOfAllHosts on hosts that share no file system.
func TestPostSeesTheFilesOfAllHosts(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "nodes: 2", "workdir: /work", "run: "+`"`+eachHostWrites+`; ls part-* | wc -l > before"`, "post: cat part-* > whole; exit $(ls part-* | wc -l)", "outputs: [{from: '/work/[bw]*', to: results}]")
	sites := b.File("sites.yaml", "sites: [{name: apart, provider: local, hosts: 2, private_scratch: true}]\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	v := b.Await(id, time.Minute)
	if v.State != "failed" || v.ExitCode == nil || *v.ExitCode != 2 || v.Attempts[0].Phases["post"] == 0 {
		t.Errorf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if got := b.Read("results/before"); strings.TrimSpace(got) != "1" {
		t.Errorf("before they are brought together there are %q", got)
	}
	if got := b.Read("results/whole"); got != "apart-0\napart-1\n" {
		t.Errorf("post has read %q", got)
	}
	if v.Error == nil || !strings.Contains(v.Error.Remedy, "shared: required") {
		t.Errorf("the error is %+v", v.Error)
	}
}

// TestASharedVolumeIsRequired of sites: what is known before, and what only the hosts show.
func TestASharedVolumeIsRequired(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "nodes: 2", "workdir: /work", "volume: {shared: required}", "run: "+`"`+eachHostWrites+`; ls part-* | wc -l"`)
	sites := b.File("sites.yaml", "sites:\n  - {name: apart, provider: local, hosts: 2, private_scratch: true}\n  - {name: lab, provider: local, hosts: 2}\n")
	var list []struct {
		Site   string
		Usable bool
	}
	b.JSON(&list, "--sites", sites, "plan", "--json", job)
	if len(list) != 2 || list[0].Usable || !list[1].Usable {
		t.Errorf("plan gives %+v", list)
	}
	r := b.Try("--sites", sites, "run", "-q", job)
	if r.Code != 0 || strings.TrimSpace(r.Stdout) != "2" {
		t.Errorf("run: %+v", r)
	}
}
