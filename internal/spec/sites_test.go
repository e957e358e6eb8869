package spec

import (
	"errors"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestSites(t *testing.T) {
	sites, err := ParseSites("sites.yaml", []byte(`sites:
  - {name: laptop, provider: local}
  - {name: lab, provider: local, hosts: 4, link_rate: 1.5gbit}
  - {name: rack, provider: ssh, hosts: ["n1.example.org", "ann@n[2-9]"], scratch: /scratch/$USER, slots: 16, paths: {era5.v2: /gpfs/era5, x: $HOME/x}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(sites) != 3 || sites[1].Hosts.Count != 4 || sites[1].LinkRate != 1.5e9 || len(sites[2].Hosts.Patterns) != 2 {
		t.Errorf("got %+v", sites)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no name":              {"sites: [{provider: local}]", "needs a `name`"},
		"key twice":            {"sites:\n- name: a\n  provider: local\n  provider: local\n", `4:3: key "sites[0].provider" is given twice`},
		"same name":            {"sites: [{name: a, provider: local}, {name: a, provider: local}]", "given twice"},
		"unknown provider":     {"sites: [{name: a, provider: slrum}]", "is not known"},
		"ssh without hosts":    {"sites: [{name: a, provider: ssh}]", "needs a list of `hosts`"},
		"list for local":       {"sites: [{name: a, provider: local, hosts: [x]}]", "takes a number"},
		"bad pattern":          {"sites: [{name: a, provider: ssh, hosts: ['n[2-']}]", "not closed"},
		"bad rate":             {"sites: [{name: a, provider: local, link_rate: fast}]", "is no rate"},
		"rate that Go knows":   {"sites: [{name: a, provider: local, hosts: 2, link_rate: nanbit}]", "s:1:57: sites[0].link_rate: \"nanbit\" is no rate"},
		"endless rate":         {"sites: [{name: a, provider: local, hosts: 2, link_rate: 1e30gbit}]", "is no rate"},
		"rate of nothing":      {"sites: [{name: a, provider: local, hosts: 2, link_rate: 0bit}]", "is no rate"},
		"rate of ssh":          {"sites: [{name: a, provider: ssh, hosts: [n], link_rate: 1gbit}]", "s:1:46: sites[0].link_rate: this site has no use for it (only for emulated hosts"},
		"rate of this":         {"sites: [{name: a, provider: local, link_rate: 1gbit}]", "link_rate: this site has no use for it"},
		"private by ssh":       {"sites: [{name: a, provider: ssh, hosts: [n], private_scratch: true}]", "private_scratch: this site has no use for it"},
		"options of local":     {"sites: [{name: a, provider: local, ssh_options: {A: b}}]", "ssh_options: this site has no use for it (only for provider ssh, aws and openstack, and slurm with a `login`)"},
		"options of no login":  {"sites: [{name: a, provider: slurm, ssh_options: {A: b}}]", "ssh_options: this site has no use for it"},
		"login of ssh":         {"sites: [{name: a, provider: ssh, hosts: [n], login: x}]", "login: this site has no use for it (only for provider slurm)"},
		"slurm of local":       {"sites: [{name: a, provider: local, slurm: {qos: x}}]", "slurm: this site has no use for it"},
		"host twice":           {"sites: [{name: a, provider: ssh, hosts: [n, n]}]", "s:1:45: sites[0].hosts: n is given twice"},
		"host in a range":      {"sites: [{name: a, provider: ssh, hosts: ['n[1-3]', n2]}]", "sites[0].hosts: n2 is given twice"},
		"price of no number":   {"sites: [{name: a, provider: local, price: .nan}]", "s:1:43: sites[0].price: .nan is no number that can be"},
		"none":                 {"sites: []", "no site is given"},
		"relative scratch":     {"sites: [{name: a, provider: ssh, hosts: [n], scratch: rel}]", "scratch: \"rel\" is no absolute path"},
		"home as scratch":      {"sites: [{name: a, provider: ssh, hosts: [n], scratch: ~/bee}]", "$HOME/bee"},
		"path of no name":      {"sites: [{name: a, provider: local, paths: {a/b: /x, -c: /y, '': /z}}]", `s:1:44: sites[0].paths: "a/b" is no name of a path (letters, digits | "-c" is no name | "" is no name`},
		"path of a home":       {"sites: [{name: a, provider: ssh, hosts: [n], paths: {p: '~', q: ~/q}}]", "s:1:57: sites[0].paths.p: ~ is not known on the hosts ($HOME) | sites[0].paths.q: ~ is not known on the hosts ($HOME/q)"},
		"relative path":        {"sites: [{name: a, provider: local, paths: {p: gpfs/x, q: ../x, r: ''}}]", `s:1:47: sites[0].paths.p: "gpfs/x" is no absolute path on the hosts | "../x" is no absolute path | sites[0].paths.r`},
		"path of two lines":    {`sites: [{name: a, provider: local, paths: {p: "/a\nb", q: "/a\0b"}}]`, `s:1:47: sites[0].paths.p: "/a\nb" is no path | sites[0].paths.q`},
		"slot too short":       {"sites: [{name: a, provider: local, slot: 1s}]", "slot: 1s leaves nothing to compute"},
		"no slot":              {"sites: [{name: a, provider: local, slot: 0s}]", "slot: it cannot be nothing"},
		"bad network":          {"sites: [{name: a, provider: local, network: 10/8}]", "is no range of addresses"},
		"nothing to rent":      {"sites: [{name: a, provider: aws, slot: 1h}]", "s:1:9: sites[0]: a site of provider aws needs `aws`"},
		"rented for ever":      {"sites: [{name: a, provider: aws, aws: {types: [t], image: debian-12}}]", "sites[0]: a site with rented machines needs a `slot`"},
		"no type, no image":    {"sites: [{name: a, provider: aws, slot: 1h, aws: {region: r}}]", "sites[0].aws: it needs `types` | sites[0].aws: it needs an `image`"},
		"image of no user":     {"sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: ami-1}}]", "s:1:69: sites[0].aws: an image by its id needs its login `user`"},
		"image of no name":     {"sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: debian}}]", `s:1:69: sites[0].aws.image: "debian" is no image`},
		"what aws cannot yet":  {"sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, market: [spot], network: {vpc: v}}}]", "s:1:77: unknown key \"sites[0].aws.market\" (leave it out: this bee rents machines on demand | network.vpc"},
		"hosts that are there": {"sites: [{name: a, provider: aws, slot: 1h, hosts: [n], wait: 1h, runs: 2, aws: {types: [t], image: al2023}}]", "hosts: this site has no use for it | wait: this site | runs: this site"},
		"ssh from nowhere":     {"sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, network: {ssh_from: [me]}, tags: {'bee:run': x}}}]", `ssh_from: "me" is no range of addresses | tags: "bee:run" cannot be`},
		"aws by ssh":           {"sites: [{name: a, provider: ssh, hosts: [n], aws: {types: [t], image: al2023}}]", "aws: this site has no use for it (only for provider aws)"},
		"no openstack":         {"sites: [{name: a, provider: openstack}]", "sites[0]: a site of provider openstack needs `openstack` | sites[0]: a site with rented machines needs a `slot`"},
		"openstack of nothing": {"sites: [{name: a, provider: openstack, slot: 1h, openstack: {cloud: c, boot: 0s}}]", "sites[0].openstack: it needs `types` | it needs an `image` | boot: it cannot be nothing"},
		"openstack not yet":    {"sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, lease: {node_type: x}, network: {bastion: b}, profile: p}}]", "s:1:84: unknown key \"sites[0].openstack.lease\" (leave it out: this bee rents machines on demand, with the disks of their flavors | network.bastion\" (leave | unknown key \"sites[0].openstack.profile\""},
		"openstack network":    {"sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, network: {floating: one, ssh_from: [me]}, tags: {'bee:run': x}}}]", `network.floating: "one" is not known | ssh_from: "me" is no range | tags: "bee:run" cannot be a tag`},
		"pool of no addresses": {"sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, network: {floating: none, pool: p}}}]", "network.pool: without floating addresses it has no meaning"},
		"openstack of aws":     {"sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023}, openstack: {types: [t], image: i}}]", "openstack: this site has no use for it (only for provider openstack)"},
		"values beside types":  {"sites: [{name: a, provider: local, slots: many}, {name: b, provider: local, price: -1}]", "slots: a whole number | price: -1 cannot be"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSites("s", []byte(c.text))
			all, is := errors.AsType[*Errors](err)
			wanted := strings.Split(c.want, " | ")
			if !is || len(all.Problems) != len(wanted) {
				t.Fatalf("got %v, want only %q", err, c.want)
			}
			for i, want := range wanted {
				if got := (&Errors{all.Problems[i : i+1]}).Error(); !strings.Contains(got, want) {
					t.Errorf("got %v, want %q", got, want)
				}
			}
		})
	}
}

func TestSelectSites(t *testing.T) {
	all := []Site{{Name: "laptop"}, {Name: "lab"}}
	if got, err := SelectSites(&Job{}, all, ""); err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := SelectSites(&Job{Sites: []string{"lab", "laptop"}}, all, ""); err != nil || got[0].Name != "lab" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := SelectSites(&Job{Sites: []string{"labb"}}, all, "f"); err == nil || !strings.Contains(core.Remedy(err), `"lab"`) {
		t.Errorf("got %v, remedy %q", err, core.Remedy(err))
	}
}

func TestExpandHosts(t *testing.T) {
	for pattern, want := range map[string]string{
		"n1":                "n1",
		"ann@n[2-4]":        "ann@n2 ann@n3 ann@n4",
		"c[08-10,20].x":     "c08.x c09.x c10.x c20.x",
		"r[1-2]n[1-2]":      "r1n1 r1n2 r2n1 r2n2",
		"n[":                "error",
		"n[4-2]":            "error",
		"n[1-999999999]":    "error",
		"":                  "error",
		"-oProxyCommand":    "error",
		"n[1-1000][1-1000]": "error",
	} {
		got, err := ExpandHosts(pattern)
		if text := strings.Join(got, " "); err == nil && text != want || err != nil && want != "error" {
			t.Errorf("%s: got %q, %v; want %q", pattern, text[:min(len(text), 80)], err, want)
		}
	}
}

// TestAFlagCountsForAKeyGivenTwice: the values in the file are not checked.
func TestAFlagCountsForAKeyGivenTwice(t *testing.T) {
	d := parseDraft("job.yaml", []byte("image: a\nnodes: 0\nnodes: 0\n"), "/d")
	d.Flag("nodes", "--nodes")
	d.Job.Nodes = 2
	_, err := d.Finish()
	all, ok := errors.AsType[*Errors](err)
	if !ok || len(all.Problems) != 1 || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("got %v", err)
	}
}
