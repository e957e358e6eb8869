package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestInitSites finds this machine and a real cluster behind a host of ssh's configuration,
// and a job runs by the file that it writes. A host that does not answer is a comment.
func TestInitSites(t *testing.T) {
	t.Parallel()
	farm := slurmfarm.StartAccounted(t, 1, "phys", "maxwall=50")
	farm.Account(t, "chem", "maxwall=20")
	b := testkit.NewBee(t)
	b.File(".ssh/config", "Include more\nHost nosuch.invalid\n  User ann\n")
	b.File(".ssh/more", "Host "+farm.Names[0]+"\nHost *\n")
	home := filepath.Dir(filepath.Dir(b.File(".ssh/none", "")))
	b.Env = append(append(b.Env, farm.Farm.Env()...), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "config"))
	all := b.Env // the question comes again, without the host that does not answer
	b.Env = append(slices.Clip(all), "HOME="+filepath.Dir(filepath.Dir(b.File("one/.ssh/config", "Host "+farm.Names[0]+"\n"))))
	asked := onTerminal(t, b, "init", "--sites", "--output", "chosen.yaml")
	testkit.Eventually(t, 2*time.Minute, func() error { // several programs of Slurm are asked first
		if text := asked.text(); !strings.HasSuffix(strings.TrimSpace(text), "]") {
			return errors.New(text)
		}
		return nil
	})
	asked.press("2\n")
	if code := asked.exit(); code != 0 {
		t.Errorf("on a terminal: %d, %s", code, asked.text())
	}
	if s := clusterOf(t, filepath.Join(b.Work, "chosen.yaml")); s.Slurm.Account != "chem" || s.Slot != 20*time.Minute || s.Slurm.Partition == "" {
		t.Errorf("the account that was chosen: %+v, %s", s.Slurm, s.Slot)
	}
	b.Env = all
	got := b.Try("init", "--sites")
	if got.Code != 0 {
		t.Fatalf("%d\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
	file := filepath.Join(home, "config", "bee", "sites.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sites, err := spec.ParseSites(file, raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	found := map[string]spec.Site{}
	for _, s := range sites {
		found[s.Provider] = s
	}
	if found["local"].Name != "local" || found["slurm"].Login != farm.Names[0] || found["slurm"].Slurm.Partition == "" || found["ssh"].Name != "" {
		t.Errorf("sites %+v\n%s", sites, raw)
	}
	if s := found["slurm"]; s.Slurm.Account != "phys" || s.Slot != 50*time.Minute || !strings.Contains(string(raw), "your accounts: phys, chem") {
		t.Errorf("the cluster has the account and the slot %+v, %s\n%s", s.Slurm, s.Slot, raw)
	}
	if !strings.Contains(string(raw), "#   - {name: nosuch.invalid,") {
		t.Errorf("the host that does not answer is not told of:\n%s", raw)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	if out := b.Try("run", "-q", "--sites", file, "--site", found["slurm"].Name, image, "echo", "there"); out.Stdout != "there\n" {
		t.Errorf("a job on the cluster: %d, %q\n%s", out.Code, out.Stdout, out.Stderr)
	}
	if again := b.Try("init", "--sites"); again.Code == 0 || !strings.Contains(again.Stderr, "exists") {
		t.Errorf("a second time: %d\n%s", again.Code, again.Stderr)
	}
}

// clusterOf is the site under Slurm of a sites file.
func clusterOf(t *testing.T, file string) spec.Site {
	t.Helper()
	sites, err := spec.LoadSites(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sites.Sites {
		if s.Provider == "slurm" {
			return s
		}
	}
	t.Fatalf("%s has no site under Slurm", file)
	return spec.Site{}
}
