package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
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
	bad := map[string]string{
		"no name":               "sites: [{provider: local}]",
		"key twice":             "sites:\n- name: a\n  provider: local\n  provider: local\n",
		"same name":             "sites: [{name: a, provider: local}, {name: a, provider: local}]",
		"unknown provider":      "sites: [{name: a, provider: slrum}]",
		"ssh without hosts":     "sites: [{name: a, provider: ssh}]",
		"list for local":        "sites: [{name: a, provider: local, hosts: [x]}]",
		"bad pattern":           "sites: [{name: a, provider: ssh, hosts: ['n[2-']}]",
		"bad rate":              "sites: [{name: a, provider: local, link_rate: fast}]",
		"rate that Go knows":    "sites: [{name: a, provider: local, hosts: 2, link_rate: nanbit}]",
		"endless rate":          "sites: [{name: a, provider: local, hosts: 2, link_rate: 1e30gbit}]",
		"rate of nothing":       "sites: [{name: a, provider: local, hosts: 2, link_rate: 0bit}]",
		"rate of ssh":           "sites: [{name: a, provider: ssh, hosts: [n], link_rate: 1gbit}]",
		"rate of this":          "sites: [{name: a, provider: local, link_rate: 1gbit}]",
		"private by ssh":        "sites: [{name: a, provider: ssh, hosts: [n], private_scratch: true}]",
		"options of local":      "sites: [{name: a, provider: local, ssh_options: {A: b}}]",
		"options of no login":   "sites: [{name: a, provider: slurm, ssh_options: {A: b}}]",
		"login of ssh":          "sites: [{name: a, provider: ssh, hosts: [n], login: x}]",
		"slurm of local":        "sites: [{name: a, provider: local, slurm: {qos: x}}]",
		"host twice":            "sites: [{name: a, provider: ssh, hosts: [n, n]}]",
		"host in a range":       "sites: [{name: a, provider: ssh, hosts: ['n[1-3]', n2]}]",
		"price of no number":    "sites: [{name: a, provider: local, price: .nan}]",
		"price below nothing":   "sites: [{name: a, provider: local, price: {amount: -1, currency: SU}}]",
		"price of no currency":  "sites: [{name: a, provider: local, price: {amount: 1, currency: '$'}}]",
		"price of other keys":   "sites: [{name: a, provider: local, price: {amount: 1, unit: SU}}]",
		"exchange for nothing":  "sites: [{name: a, provider: local}]\nexchange: {SU: 0}",
		"exchange of no name":   "sites: [{name: a, provider: local}]\nexchange: {'': 1}",
		"limit of no price":     "sites: [{name: a, provider: local, max_cost: 5}]",
		"limit of no cost":      "sites: [{name: a, provider: aws, slot: 1h, price: 0, max_cost: 5, aws: {types: [t], image: al2023}}]",
		"limit below nothing":   "sites: [{name: a, provider: local, price: 1, max_cost: -5}]",
		"limit of machines":     "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, max_cost: 5}}]",
		"none":                  "sites: []",
		"relative scratch":      "sites: [{name: a, provider: ssh, hosts: [n], scratch: rel}]",
		"home as scratch":       "sites: [{name: a, provider: ssh, hosts: [n], scratch: ~/bee}]",
		"path of no name":       "sites: [{name: a, provider: local, paths: {a/b: /x, -c: /y, '': /z}}]",
		"path of a home":        "sites: [{name: a, provider: ssh, hosts: [n], paths: {p: '~', q: ~/q}}]",
		"relative path":         "sites: [{name: a, provider: local, paths: {p: gpfs/x, q: ../x, r: ''}}]",
		"path of two lines":     `sites: [{name: a, provider: local, paths: {p: "/a\nb", q: "/a\0b"}}]`,
		"slot too short":        "sites: [{name: a, provider: local, slot: 1s}]",
		"no slot":               "sites: [{name: a, provider: local, slot: 0s}]",
		"bad network":           "sites: [{name: a, provider: local, network: 10/8}]",
		"nothing to rent":       "sites: [{name: a, provider: aws, slot: 1h}]",
		"rented for ever":       "sites: [{name: a, provider: aws, aws: {types: [t], image: debian-12}}]",
		"no type, no image":     "sites: [{name: a, provider: aws, slot: 1h, aws: {region: r}}]",
		"image of no user":      "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: ami-1}}]",
		"image of no name":      "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: debian}}]",
		"own image of no name":  "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: 'bee:HPC'}}]",
		"own image of nothing":  "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: 'bee:'}}]",
		"what aws cannot yet":   "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, placement: cluster, network: {vpc: v}, shared: head}}]",
		"placement of nothing":  "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, placement: {}}}]",
		"placements of a cloud": "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, placement: {cluster: requird, spread: required}}}]",
		"placement of no word":  "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, placement: clustr}}]",
		"placement of a lease":  "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, placement: spread, lease: {kind: flavor}}}]",
		"placement of a rack":   "sites: [{name: a, provider: ssh, hosts: [n], placement: cluster}]",
		"markets of aws":        "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, market: [spott, spot, spot], max_price: -1}}]",
		"price of no spot":      "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, max_price: 0.1}}]",
		"hosts that are there":  "sites: [{name: a, provider: aws, slot: 1h, hosts: [n], wait: 1h, runs: 2, aws: {types: [t], image: al2023}}]",
		"ssh from nowhere":      "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, network: {ssh_from: [me]}, tags: {'bee:run': x}}}]",
		"network of no form":    "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, network: {vpc: mine, subnets: [a, subnet-1, subnet-1], public: maybe}}}]",
		"public bastion":        "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, network: {bastion: gate, public: true}}}]",
		"private from nowhere":  "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, network: {vpc: vpc-1, public: false}}}]",
		"aws by ssh":            "sites: [{name: a, provider: ssh, hosts: [n], aws: {types: [t], image: al2023}}]",
		"no openstack":          "sites: [{name: a, provider: openstack}]",
		"openstack of nothing":  "sites: [{name: a, provider: openstack, slot: 1h, openstack: {cloud: c, boot: 0s}}]",
		"openstack not yet":     "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, infiniband: true, network: {vpc: v}, profile: p}}]",
		"openstack network":     "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, network: {floating: one, ssh_from: [me]}, tags: {'bee:run': x}}}]",
		"lease of mine":         "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, zones: [z], lease: {name: mine, kind: rack, start: soon}}}]",
		"lease of a flavor":     "sites: [{name: a, provider: openstack, slot: 1h, wait: 1h, openstack: {types: [t], image: i, lease: {kind: flavor, properties: {'a b': x}}}}]",
		"pool of no addresses":  "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, network: {floating: none, pool: p}}}]",
		"bastion of no host":    "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, network: {bastion: -oProxyCommand=x}}}]",
		"bastion with a port":   "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, network: {bastion: 'ssh://me@gate:22'}}}]",
		"bastion and floating":  "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, network: {bastion: gate, floating: head}}}]",
		"bastion and a pool":    "sites: [{name: a, provider: openstack, slot: 1h, openstack: {types: [t], image: i, network: {bastion: gate, pool: p}}}]",
		"no virtualbox":         "sites: [{name: a, provider: virtualbox, hosts: 2, runs: 1}]",
		"virtualbox of nothing": "sites: [{name: a, provider: virtualbox, virtualbox: {devices: scsi, boot: 0s}}]",
		"a guest like options":  "sites: [{name: a, provider: virtualbox, virtualbox: {machine: \"a\\nb\", snapshot: \"\\x1b\", user: -oProxyCommand=id, host_key: ssh-ed25519, cpus: 65, memory: 1M}}]",
		"virtualbox of ssh":     "sites: [{name: a, provider: ssh, hosts: [h], virtualbox: {machine: m, user: u, host_key: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs3mXn0cVhQKpVq2rO1Lk4Yy9xqf3u2v0c5mQ7aZ1aB me'}}]",
		"openstack of aws":      "sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023}, openstack: {types: [t], image: i}}]",
		"values beside types":   "sites: [{name: a, provider: local, slots: many}, {name: b, provider: local, price: -1}]",
	}
	var refused testkit.ErrorList
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		_, err := ParseSites("s", []byte(bad[name]))
		if all, is := errors.AsType[*Errors](err); !is || !core.IsKind(err, core.Invalid) || len(all.Problems) == 0 {
			t.Errorf("%s: got %v", name, err)
		}
		refused.Add(name+":\n"+bad[name], err)
	}
	refused.Compare(t, "sites")
}

// TestPublic: true and false of YAML are words of it, as the same with quotes.
func TestPublic(t *testing.T) {
	for text, want := range map[string]Public{"true": PublicYes, "'true'": PublicYes, "false": PublicNo, "auto": PublicAuto} {
		f, err := ParseSites("s", []byte("sites: [{name: a, provider: aws, slot: 1h, aws: {types: [t], image: al2023, network: {vpc: vpc-1, subnets: [subnet-1], public: "+text+", ssh_from: [10.0.0.0/16]}}}]"))
		if err != nil || f[0].AWS.Network.Public != want || f[0].AWS.Network.VPC != "vpc-1" {
			t.Errorf("%s: got %+v, %v", text, f, err)
		}
	}
}

// TestOwnImage: images of bee's own are named alike for each cloud, and other images may have names like theirs.
func TestOwnImage(t *testing.T) {
	for image, clouds := range map[string][]string{"bee:hpc": {"aws", "openstack"}, "bee:lab-2026.1_x": {"aws", "openstack"}, "bee": {"openstack"}, "be": {"openstack"}, "b": {"openstack"}, "bees: all": {"openstack"}} {
		for _, cloud := range clouds {
			if _, err := ParseSites("s", []byte(fmt.Sprintf("sites: [{name: a, provider: %s, slot: 1h, %s: {types: [t], image: %q}}]", cloud, cloud, image))); err != nil {
				t.Errorf("%s at %s: %v", image, cloud, err)
			}
		}
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
	if !ok || len(all.Problems) != 1 || all.Problems[0].Line != 3 {
		t.Errorf("got %v", err)
	}
}
