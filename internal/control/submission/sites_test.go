package submission

import (
	"fmt"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
)

func TestAtAddresses(t *testing.T) {
	rack := func(hosts ...string) spec.Site {
		return spec.Site{Name: "rack", Provider: "ssh", Scratch: "/mine", Hosts: spec.Hosts{Patterns: hosts}}
	}
	cluster := func(login string) spec.Site {
		return spec.Site{Name: "cluster", Provider: "slurm", Scratch: "/mine", Login: login}
	}
	own := []spec.Site{{Name: "cloud", Provider: "aws"}, rack("n[1-3]"), cluster("ann@login")}
	for name, c := range map[string]struct {
		ticket []spec.Site
		want   string
	}{
		"both, in the ticket's order": {[]spec.Site{cluster("ann@login"), rack("n1", "n2", "n3")}, "[cluster[] rack[n1 n2 n3]]"},
		"some of the hosts":           {[]spec.Site{rack("n[2-9]", "[")}, "[rack[n2 n3]]"},
		"other hosts":                 {[]spec.Site{rack("m1")}, "[]"},
		"no hosts":                    {[]spec.Site{rack()}, "[]"},
		"another login node":          {[]spec.Site{cluster("login")}, "[]"},
		"another provider":            {[]spec.Site{{Name: "rack", Provider: "local"}}, "[]"},
		"a name alone":                {[]spec.Site{{Name: "cloud"}}, "[]"},
		"twice":                       {[]spec.Site{rack("n1"), rack("n2")}, "[rack[n1]]"},
		"none":                        {nil, "[]"},
	} {
		got := []string{}
		for _, s := range AtAddresses(Addresses(c.ticket), own) {
			if s.Scratch != "/mine" {
				t.Errorf("%s: the scratch of %s is %q", name, s.Name, s.Scratch)
			}
			got = append(got, fmt.Sprint(s.Name, s.Hosts.Patterns))
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}
