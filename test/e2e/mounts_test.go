package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// directory makes one with files in it.
func directory(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// site is what `bee plan --json` says of a site.
type site struct {
	Site, Reason, Remedy string
	Usable               bool
}

// TestMountsOfThisMachine: the job reads what is on the site, by a path and by a name of
// the sites file, writes only where it may, and a move or an output has none of it.
func TestMountsOfThisMachine(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	data := t.TempDir()
	era5 := directory(t, filepath.Join(data, "project", "era5"), map[string]string{"t2m": "285 K\n"})
	results := directory(t, filepath.Join(data, "results"), nil)
	b, job := busyboxJob(t, "mounts:",
		"  - {from: "+era5+", to: /data/}",
		"  - {from: project/era5, to: /work/by-name}",
		"  - {from: $RESULTS, to: /results, write: true}",
		"run: |",
		"  cat /data/t2m /work/by-name/t2m",
		"  echo x > /data/new || echo refused",
		"  echo x > /work/by-name/new || echo refused",
		"  echo made > /results/made; echo out > /work/out",
		"outputs: [{from: /work, to: ./home}]")
	b.Env = append(b.Env, "RESULTS="+results, "BEE_SITES="+b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2, paths: {project: "+filepath.Join(data, "project")+"}}\n"))
	var plan []site
	b.JSON(&plan, "plan", "--json", job)
	if len(plan) != 1 || !plan[0].Usable {
		t.Errorf("plan: %+v", plan)
	}
	r := b.Try("run", "-q", job)
	if r.Code != 0 || r.Stdout != "285 K\n285 K\nrefused\nrefused\n" {
		t.Fatalf("got %+v", r)
	}
	made, err := os.Stat(filepath.Join(results, "made"))
	if err != nil || int(sysOf(made).Uid) != os.Getuid() {
		t.Errorf("what the job wrote does not belong to the caller: %+v, %v", made, err)
	}
	if got := b.Read("home/work/out"); got != "out\n" {
		t.Errorf("the output is %q", got)
	}
	if left, err := os.ReadDir(filepath.Join(b.Work, "home", "work", "by-name")); err == nil && len(left) > 0 {
		t.Errorf("a mount was collected: %v", left)
	}
	if left, err := os.ReadDir(era5); err != nil || len(left) != 1 {
		t.Errorf("the data are %v now, %v", left, err)
	}
}

// TestSitesWithoutTheMount are skipped with the reason, which `bee plan` knows before.
func TestSitesWithoutTheMount(t *testing.T) {
	testkit.RequireUser(t) // root may read anything
	t.Parallel()
	data := t.TempDir()
	good := directory(t, filepath.Join(data, "good"), map[string]string{"text": "good\n"})
	shut := directory(t, filepath.Join(data, "shut"), nil)
	if err := os.Chmod(shut, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(shut, 0o700) }) //nolint:errcheck // for its removal
	b, job := busyboxJob(t, "mounts: [{from: era5, to: /data}]", "run: cat /data/text")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n"+
		"  - {name: nameless, provider: local}\n"+
		"  - {name: absent, provider: local, paths: {era5: "+filepath.Join(data, "absent")+"}}\n"+
		"  - {name: file, provider: local, paths: {era5: "+filepath.Join(good, "text")+"}}\n"+
		"  - {name: shut, provider: local, paths: {era5: "+shut+"}}\n"+
		"  - {name: unset, provider: local, paths: {era5: $NOT_SET_ANYWHERE/era5}}\n"+
		"  - {name: good, provider: local, paths: {era5: "+good+"}}\n"))
	var plan []site
	b.JSON(&plan, "plan", "--json", job)
	if len(plan) != 6 {
		t.Fatalf("plan: %+v", plan)
	}
	for _, p := range plan {
		if p.Usable != (p.Site == "good") || !p.Usable && (p.Reason == "" || p.Remedy == "") {
			t.Errorf("plan: %+v", p)
		}
	}
	if r := b.Try("run", job); r.Code != 0 || !strings.Contains(r.Stdout, "good\n") {
		t.Errorf("got %+v", r)
	}
	var shown struct {
		Attempts []struct{ Site string }
	}
	b.JSON(&shown, "show", "--json", "small")
	if len(shown.Attempts) != 1 || shown.Attempts[0].Site != "good" {
		t.Errorf("hosts were asked for at %+v", shown.Attempts)
	}
	for _, name := range []string{"absent", "file", "shut"} {
		if r := b.Try("run", "--site", name, job); r.Code == 0 || r.Stdout != "" {
			t.Errorf("at %s: %+v", name, r)
		}
	}
}

// TestMountsBehindSSH: paths and variables are those of the site, and every host has them.
func TestMountsBehindSSH(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	b, farm, job := rackWith(t, sshfarm.Start(t, 2, "PART=project"), "nodes: 2")
	from := filepath.Join(farm.Same, "project", "era5")
	directory(t, farm.There(from), map[string]string{"text": "theirs\n"})
	directory(t, from, map[string]string{"text": "here\n"})
	directory(t, filepath.Join(farm.Private, "bee-h0", "only"), map[string]string{"text": "only\n"})
	small := b.Read(filepath.Base(job))
	job = b.File("job.yaml", small+
		"mounts: [{from: "+farm.Same+"/$PART/era5, to: /data}, {from: results, to: /results, write: true}]\n"+
		`run: 'cat /data/text; /.bee/rsh h1 "cat /data/text; echo made > /results/made"; ! touch /data/new'`+"\n")
	results := filepath.Join(farm.Same, "results")
	directory(t, farm.There(results), nil)
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n"+
		"  - {name: rack, provider: ssh, hosts: ["+strings.Join(farm.Names, ", ")+"], scratch: "+farm.Private+", slots: 2, paths: {results: "+results+", only: "+farm.Private+"/bee-h0/only}}\n"+
		"  - {name: lab, provider: local, hosts: 2, paths: {results: "+results+", only: "+farm.Private+"/bee-h0/only}}\n"))
	r := b.Try("run", "-q", "--site", "rack", job)
	if r.Code != 0 || r.Stdout != "theirs\ntheirs\n" {
		t.Fatalf("got %+v", r)
	}
	if made, err := os.Stat(farm.There(filepath.Join(results, "made"))); err != nil || int(sysOf(made).Uid) != os.Getuid() {
		t.Errorf("on the site: %+v, %v", made, err)
	}
	left(t, farm)
	// The first host has it, the second has not: then the site cannot take the job.
	job = b.File("job.yaml", small+"mounts: [{from: only, to: /data}]\nrun: cat /data/text\n")
	if r := b.Try("run", "-q", job); r.Code != 0 || r.Stdout != "only\n" {
		t.Errorf("got %+v", r)
	}
	var shown struct {
		Attempts []struct{ Site string }
	}
	b.JSON(&shown, "show", "--json", "small")
	if len(shown.Attempts) != 2 || shown.Attempts[1].Site != "lab" {
		t.Errorf("the attempts are %+v", shown.Attempts)
	}
}

// TestMountsOnASlurmCluster: the login node knows whether the site has the directory, and
// its variables; every node of the job has it.
func TestMountsOnASlurmCluster(t *testing.T) {
	t.Parallel()
	farm := slurmfarm.StartFor(t, []string{"PART=project"}, 2)
	t.Cleanup(func() { nothingQueued(t, farm) })
	results := filepath.Join(farm.Same, "results")
	b, job := busyboxJob(t, "nodes: 2", "mounts: [{from: "+farm.Same+"/$PART/era5, to: /data}, {from: results, to: /results, write: true}]",
		`run: 'for h in h1 h2; do /.bee/rsh $h "cat /data/text; echo made >/results/$h; ! touch /data/new 2>/dev/null"; done'`)
	b.Env = append(append(b.Env, farm.Farm.Env()...), "BEE_SITES="+b.File("sites.yaml", "sites:\n"+
		"  - "+clusterSite(farm, ", paths: {results: "+results+"}")+"\n"+
		"  - "+strings.Replace(clusterSite(farm, ", paths: {results: "+filepath.Join(farm.Same, "none")+"}"), "cluster", "without", 1)+"\n"))
	directory(t, farm.There(filepath.Join(farm.Same, "project", "era5")), map[string]string{"text": "theirs\n"})
	directory(t, filepath.Join(farm.Same, "none"), nil) // here, where it is of no use
	directory(t, farm.There(results), nil)
	var plan []site
	b.JSON(&plan, "plan", "--json", job)
	if len(plan) != 2 || !plan[0].Usable || plan[1].Usable || plan[1].Reason == "" || plan[1].Remedy == "" {
		t.Errorf("plan: %+v", plan)
	}
	if r := b.Try("run", "-q", job); r.Code != 0 || r.Stdout != "theirs\ntheirs\n" {
		t.Fatalf("got %+v", r)
	}
	for _, name := range []string{"h1", "h2"} {
		if made, err := os.Stat(farm.There(filepath.Join(results, name))); err != nil || int(sysOf(made).Uid) != os.Getuid() {
			t.Errorf("on the site: %+v, %v", made, err)
		}
	}
	if r := b.Try("run", "-q", "--site", "without", job); r.Code == 0 || r.Stdout != "" {
		t.Errorf("at a site without it: %+v", r)
	}
}

// TestAMountThatTheDaemonHasNot: what docker's daemon cannot mount, as where a file server
// knows the user alone, makes the next site be used.
func TestAMountThatTheDaemonHasNot(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireTool(t, "unshare")
	testkit.Docker(t)
	private := t.TempDir()
	b, job := busyboxJob(t, "mounts: [{from: "+private+"/data, to: /data}]", "run: cat /data/text")
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n  - {name: daemon, provider: local, runtime: docker}\n  - {name: own, provider: local, runtime: rootless}\n"))
	c := b.Command("run", job)
	// No other process sees the file system at that path.
	c.Args = append([]string{"unshare", "--map-current-user", "--keep-caps", "--mount", "sh", "-ec", `mount -t tmpfs private "$0"; mkdir "$0/data"; echo ours >"$0/data/text"; exec "$@"`, private, c.Path}, c.Args[1:]...)
	c.Path = testkit.RequireTool(t, "unshare")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ours\n") {
		t.Fatalf("%v: %s", err, out)
	}
	var shown struct {
		Attempts []struct{ Site, Verdict string }
	}
	b.JSON(&shown, "show", "--json", "small")
	if len(shown.Attempts) != 2 || shown.Attempts[0].Site != "daemon" || shown.Attempts[1].Site != "own" {
		t.Errorf("the attempts are %+v", shown.Attempts)
	}
}
