package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
	"github.com/bee-hpc/bee/internal/testkit/machines"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
)

// TestPrivateNetwork rents machines without public addresses, which are reached through a host of the user's. Ssh is let in
// from that alone.
func TestPrivateNetwork(t *testing.T) {
	const bastion = "198.51.99.9"
	for name, run := range map[string]func(t *testing.T, b *testkit.Bee, job string){
		"aws": func(t *testing.T, b *testkit.Bee, job string) {
			s := ec2server.Start(t)
			network := fmt.Sprintf("bastion: %s@%s", machines.User(t), bastion)
			behind(t, b, s, s.Env(), s.Bastion(t, bastion), "aws", fmt.Sprintf("{types: [%s], image: %s, user: %s, network: {%s}}", ec2server.Small, ec2server.Image, machines.User(t), network), job)
			for _, p := range s.Params("RunInstances") {
				if public := p.Get("NetworkInterface.1.AssociatePublicIpAddress"); public != "false" {
					t.Errorf("public addresses: %s", public)
				}
			}
			var from []string
			for _, p := range s.Params("AuthorizeSecurityGroupIngress") {
				if at := p.Get("IpPermissions.1.IpRanges.1.CidrIp"); at != "" {
					from = append(from, at)
				}
			}
			if got := strings.Join(from, " "); got != bastion+"/32 "+ec2server.BastionInside+"/32" {
				t.Errorf("ssh is let in from %s", got)
			}
		},
		"openstack": func(t *testing.T, b *testkit.Bee, job string) {
			s := openstackserver.Start(t)
			network := fmt.Sprintf("bastion: %s@%s, name: %s", machines.User(t), bastion, openstackserver.Private)
			behind(t, b, s, s.Env(), s.Bastion(t, bastion), "openstack", fmt.Sprintf("{types: [%s], image: %s, user: %s, network: {%s}}", openstackserver.Small, openstackserver.Image, machines.User(t), network), job)
			if n := s.Calls("POST /network/v2.0/floatingips"); n > 0 {
				t.Errorf("%d floating addresses", n)
			}
			rules := strings.Join(s.Bodies("POST /network/v2.0/security-group-rules"), "\n")
			for _, at := range []string{bastion, openstackserver.BastionInside} {
				if strings.Count(rules, `"remote_ip_prefix": "`+at+`/32"`) != 1 || strings.Count(rules, "remote_ip_prefix") != 2 {
					t.Errorf("rules are %s", rules)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, job := busyboxJob(t, "nodes: 2", "run: echo it runs")
			run(t, b, job)
		})
	}
}

// behind runs a job on a site whose machines are behind a bastion, which is reached with options of ssh.
func behind(t *testing.T, b *testkit.Bee, s rentable, env []string, options map[string]string, provider, settings, job string) {
	t.Helper()
	ssh, err := json.Marshal(options) // which is YAML, too
	if err != nil {
		t.Fatal(err)
	}
	b.Env = append(append(b.Env, env...), "BEE_SITES="+b.File("rented.yaml", fmt.Sprintf("sites:\n  - {name: cloud, provider: %s, slot: 1h, scratch: %s, slots: 2, ssh_options: %s, %s: %s}\n", provider, s.Scratch(), ssh, provider, settings)))
	if r := b.Try("run", "-q", job); r.Code != 0 || r.Stdout != "it runs\n" {
		t.Errorf("got %+v", r)
	}
	wantNothingRented(t, s)
}
