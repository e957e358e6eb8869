package scaffold

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
)

func TestCluster(t *testing.T) {
	partitions := "long|up|infinite\nbatch*|up|1-12:30:00\nbroken|down|1:00:00\nbatch*|up|1:00\n$(reboot)|up|1:00:00\n-x|up|1:00:00\nshort|up|30:00\nsum|up\n"
	own := Accounts("ann|chem|phys0815|||||\nbob|x|other||||farm\nann|phys0815|chem|short|||farm\nann|phys0815|phys0815||||farm\nann|x|a b||||farm\nann|phys0815\n", "ann")
	all := Cluster("", partitions, own, "")
	var names []string
	for _, c := range all {
		names = append(names, c.Site.Name)
		if c.Site.Slurm.Account != "phys0815" || !strings.Contains(c.About, ": phys0815, chem") {
			t.Errorf("%+v", c)
		}
	}
	if !slices.Equal(names, []string{"batch", "long", "short"}) {
		t.Fatalf("sites %v", names)
	}
	if all[0].Site.Slot != 36*time.Hour+30*time.Minute || all[1].Site.Slot != 0 || all[2].Site.Slot != 30*time.Minute {
		t.Errorf("slots %v, %v, %v", all[0].Site.Slot, all[1].Site.Slot, all[2].Site.Slot)
	}
	if remote := Cluster("ann@login", "batch*|up|4:00:00\n", nil, ""); len(remote) != 1 || remote[0].Site.Name != "ann-login-batch" || remote[0].Site.Login != "ann@login" || remote[0].Site.Slurm.Account != "" {
		t.Errorf("behind a login node: %+v", remote)
	}
	if many := Cluster("", manyPartitions(1000), nil, ""); len(many) != mostPartitions {
		t.Errorf("of 1000 partitions there are %d", len(many))
	}
	if none := Cluster("", "bash: sinfo: command not found\n", nil, ""); len(none) != 0 {
		t.Errorf("without Slurm: %+v", none)
	}
}

// TestAccounts: the account of each site is one that may use its partition, and its limits
// count.
func TestAccounts(t *testing.T) {
	const text = "ann|chem|phys|||cpu=8,node=2|farm\nann|chem|chem||00:30:00||farm\nann|chem|geo|short|1-00:00:00|node=4|farm\nann|chem|chem|short|00:10:00||farm\nann|chem|-x||||farm\nann|chem|$(x)||||farm\nbob|chem|bio||||farm\n"
	own := Accounts(text, "ann")
	if got := Names(own); !slices.Equal(got, []string{"chem", "phys", "geo"}) {
		t.Fatalf("accounts %v", got)
	}
	partitions := "batch*|up|1:00:00\nshort|up|20:00\nlong|up|infinite\n"
	for _, c := range []struct {
		account string
		want    []ofAccount
	}{
		{"", []ofAccount{{"chem", 30 * time.Minute}, {"chem", 10 * time.Minute}, {"chem", 30 * time.Minute}}},
		{"phys", []ofAccount{{"phys", time.Hour}, {"phys", 20 * time.Minute}, {"phys", 0}}},
		{"geo", []ofAccount{{"chem", 30 * time.Minute}, {"geo", 20 * time.Minute}, {"chem", 30 * time.Minute}}},
	} {
		for i, s := range Cluster("", partitions, own, c.account) {
			if got := (ofAccount{s.Site.Slurm.Account, s.Site.Slot}); got != c.want[i] || !strings.Contains(s.About, ": chem, phys, geo") {
				t.Errorf("account %q, %s: %+v, want %+v; %s", c.account, s.Site.Name, got, c.want[i], s.About)
			}
		}
	}
	if about := Cluster("", partitions, own, "phys")[0].About; !strings.Contains(about, " 2 nodes") {
		t.Errorf("the limit of nodes: %s", about)
	}
	two := Accounts(text+"ann|chem|sea||||other\n", "ann")
	if got := Cluster("", partitions, two, "chem")[0]; got.Site.Slot != time.Hour || len(Names(two)) != 4 {
		t.Errorf("limits of two clusters: %+v", got)
	}
	if many := Accounts(strings.Repeat("ann|a|a||||c\n", 1000)+"ann|a|b||||c\n", "ann"); len(many) != 2 {
		t.Errorf("one account many times: %+v", many)
	}
}

// ofAccount is what of a site depends on its account.
type ofAccount struct {
	account string
	slot    time.Duration
}

func manyPartitions(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("p" + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + "|up|1:00:00\n")
	}
	return b.String()
}

func TestSSHHosts(t *testing.T) {
	files := map[string]string{"more": "Host inner\nInclude more\n"}
	text := "# Host commented\nHost n1 n2 *.example.org !bad\n  HostName 10.0.0.1\nhost=n3\nHost \"n4\"\nHost -oProxyCommand=x\nHost n1\nInclude more none\nMatch host n9\nHost a;b\n"
	got := SSHHosts(text, func(p string) []string {
		if f, is := files[p]; is {
			return []string{f}
		}
		return nil
	})
	if !slices.Equal(got, []string{"n1", "n2", "n3", "n4", "inner"}) {
		t.Errorf("hosts %v", got)
	}
}

// TestSites: the file is valid whatever sites say of themselves.
func TestSites(t *testing.T) {
	tried := []Tried{
		{Candidate{spec.DefaultSites()[0], ""}, true, "containers by rootless"},
		{Candidate{spec.Site{Name: "n1", Provider: "ssh", Hosts: spec.Hosts{Patterns: []string{"n1"}}}, ""}, false, "no\n- {name: evil, provider: local}\x1b[31m\u2028x"},
		{Cluster("login", "batch*|up|4:00:00\n", []Account{{Name: "phys"}}, "")[0], true, "queue\r\nsites: []" + strings.Repeat("x", 1000)},
	}
	text, err := Sites("here\nsites:", tried)
	if err != nil {
		t.Fatal(err)
	}
	sites, err := spec.ParseSites("sites.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(sites) != 2 || sites[0].Name != "local" || sites[1].Login != "login" || sites[1].Slot != 4*time.Hour || sites[1].Slurm.Account != "phys" || sites[1].Slurm.Partition != "batch" {
		t.Errorf("got %+v\n%s", sites, text)
	}
	if !strings.Contains(text, "#   - {name: n1, provider: ssh, hosts: [n1]}") || strings.Contains(text, "\x1b") {
		t.Errorf("the one that does not work:\n%s", text)
	}
}
