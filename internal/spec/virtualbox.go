package spec

import (
	"strings"
	"time"
)

// VirtualBox is which guest a site of provider virtualbox makes.
type VirtualBox struct {
	// Machine is the machine that is cloned, by name or UUID, and Snapshot one of its snapshots; "": all of it.
	Machine  string `yaml:"machine"`
	Snapshot string `yaml:"snapshot"`
	// Devices are virtio or emulated; "": virtio.
	Devices string `yaml:"devices"`
	// CPUs and Memory are the guest's; 0: those of the machine.
	CPUs   int  `yaml:"cpus"`
	Memory Size `yaml:"memory"`
	// User is the login user, and HostKey the public key of the sshd in the guest.
	User    string `yaml:"user"`
	HostKey string `yaml:"host_key"`
	// Boot is how long the guest may take until it answers; 0: the provider's own.
	Boot time.Duration `yaml:"boot"`
}

const (
	// machineName is the form of names of machines and snapshots in VirtualBox.
	machineName = `^[^\x00-\x1f"]{1,200}$`
	// hostKey is the form of a public key of OpenSSH, perhaps with a comment.
	hostKey = `^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,}={0,2}( [^\n]*)?\n?$`
	// accountName is the form of an account's name, as core.IsAccount has it.
	accountName = `^[a-z_][a-z0-9_.-]{0,31}$`
)

// virtualBox finds what cannot be at a site of provider virtualbox.
func (sc *siteCheck) virtualBox() {
	s, at := sc.site, sc.at
	if s.Provider != "virtualbox" {
		return
	}
	v := s.VirtualBox
	if v == nil {
		if sc.report.wasRead(at + ".virtualbox") {
			sc.report.at(at, "such as `virtualbox: {machine: debian, user: me, host_key: ssh-ed25519 …}`", "%s: a site of provider virtualbox needs `virtualbox`", at)
		}
		return
	}
	at += ".virtualbox"
	for _, k := range []struct{ key, value, example string }{
		{"machine", v.Machine, "such as `machine: debian`; `VBoxManage list vms` prints yours"},
		{"user", v.User, "such as `user: me`"},
		{"host_key", v.HostKey, "what `cat /etc/ssh/ssh_host_ed25519_key.pub` prints in the machine"},
		{"snapshot", v.Snapshot, ""},
	} {
		switch {
		case !sc.report.wasRead(at + "." + k.key):
		case k.value == "" && k.example != "":
			sc.report.at(at, k.example, "%s: it needs `%s`", at, k.key)
		case k.value != "" && !fits("sites[].virtualbox."+k.key, k.value):
			sc.report.at(at+"."+k.key, strings.TrimPrefix(k.example, "such as "), "%s.%s: %q cannot be", at, k.key, k.value)
		}
	}
	sc.report.oneOf(at+".devices", v.Devices)
	within(sc.report, at+".cpus", v.CPUs)
	if v.Memory < 0 || v.Memory > 0 && v.Memory < 4<<20 {
		sc.report.at(at+".memory", "such as 4G", "%s.memory: a guest needs 4M at least", at)
	}
	sc.report.positive(at+".boot", v.Boot, "5m")
}
