package machines

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/emulate"
)

// Bastion has each batch that boots from now on have a bastion, too: a machine of the user's that is reached at an address
// from outside, and reaches those of the batch. It returns the options by which ssh logs in to it.
func (p *Park) Bastion(t testing.TB, address string) map[string]string {
	t.Helper()
	etc, key, known := p.bastionFiles(), filepath.Join(p.dir, "bastion-login"), filepath.Join(p.dir, "bastion-known")
	if out, err := exec.Command("cp", "-R", "-P", filepath.Join(p.dir, "etc"), etc).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	host := filepath.Join(etc, "ssh", "host")
	for _, path := range []string{host, key} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	login, err := os.ReadFile(key + ".pub")
	own, ownErr := os.ReadFile(host + ".pub")
	config := strings.Join([]string{
		"Port " + Port, "HostKey /etc/ssh/host", "AuthorizedKeysFile /etc/ssh/login", "PermitRootLogin prohibit-password", "StrictModes no", "UsePAM no", "PidFile none",
		"MaxStartups 100", "KexAlgorithms curve25519-sha256", "ForceCommand false", // it only passes on
	}, "\n") + "\n"
	err = errors.Join(
		err, ownErr, os.WriteFile(filepath.Join(etc, "ssh", "login"), login, 0o644), os.WriteFile(filepath.Join(etc, "ssh", "sshd_config"), []byte(config), 0o644),
		os.WriteFile(known, fmt.Appendf(nil, "[%s]:%s %s", address, Port, own), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	p.bastion = address
	return map[string]string{
		"ProxyCommand": p.Proxy(t), "Port": Port, "IdentityFile": key, "IdentitiesOnly": "yes", "IdentityAgent": "none", "UserKnownHostsFile": known, "GlobalKnownHostsFile": "/dev/null",
		"StrictHostKeyChecking": "yes",
	}
}

// bastionFiles is the /etc of the bastion.
func (p *Park) bastionFiles() string { return filepath.Join(p.dir, "bastion") }

// startBastion starts the sshd of a batch's bastion, and has its address lead there.
func (b *Batch) startBastion() error {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		return err
	}
	n := len(b.ids) // behind the batch's own
	log := filepath.Join(b.park.dir, "bastion-"+b.ids[0])
	if _, err := b.hosts.Launch(b.park.ended, emulate.Command{Host: n, Path: sshd, Argv: []string{sshd, "-D", "-e", "-f", "/etc/ssh/sshd_config"}, Env: os.Environ(), Log: log}); err != nil {
		return err
	}
	return b.route(b.park.bastion, b.hosts.Hosts()[n].Addr)
}
