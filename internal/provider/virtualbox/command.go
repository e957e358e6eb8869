package virtualbox

import (
	"fmt"
	"slices"
	"strconv"
)

// A line is the arguments of one call of VBoxManage. The builders take UUIDs that were compared with what VBoxManage
// lists, numbers, and names that this package has made: no text of a file reaches a line as it is.
type line []string

func versionLine() line         { return line{"--version"} }
func listLine() line            { return line{"list", "vms"} }
func runningLine() line         { return line{"list", "runningvms"} }
func infoLine(uuid string) line { return line{"showvminfo", uuid, "--machinereadable"} }

// cloneLine clones a machine, or a snapshot of it, whose disk the clone then shares.
func cloneLine(base, snapshot string, g guest, folder string) line {
	l := line{"clonevm", base, "--name", g.Name, "--uuid", g.UUID, "--basefolder", folder, "--mode", "machine", "--register"}
	if snapshot != "" {
		l = append(l, "--snapshot", snapshot, "--options", "link")
	}
	return l
}

// names that VirtualBox has for devices.
const (
	virtioCard     = "virtio"
	emulatedCard   = "82540EM"
	virtioDisk     = "VirtioSCSI" // as showvminfo prints it
	emulatedDisk   = "IntelAhci"
	ourController  = "bee"
	ourForwarding  = "bee-ssh"
	guestPort      = 22
	cards          = 8 // of the usual chipset
	localhostSince = 7 // the version that can keep guests from the ports of 127.0.0.1
)

func (d Devices) card() string {
	if d == Emulated {
		return emulatedCard
	}
	return virtioCard
}

func (d Devices) disk() string {
	if d == Emulated {
		return emulatedDisk
	}
	return virtioDisk
}

// hardware is what modifyvm sets.
type hardware struct {
	cpus   int   // 0: as they are
	memory int64 // bytes; 0: as it is
	card   string
	port   int
	// others are the numbers of further network cards, which are taken out, and forwardings the names of those that the
	// first one has.
	others      []int
	forwardings []string
	// closed has the guest reach no port of 127.0.0.1 on this machine.
	closed bool
}

// hardwareLines set the hardware of a guest that does not run. Old forwardings go first, as one may have our name.
func hardwareLines(uuid string, h hardware) (lines []line) {
	for _, name := range h.forwardings {
		lines = append(lines, line{"modifyvm", uuid, "--natpf1", "delete", name})
	}
	l := line{"modifyvm", uuid}
	if h.cpus > 0 {
		l = append(l, "--cpus", strconv.Itoa(h.cpus))
	}
	if h.memory > 0 {
		l = append(l, "--memory", strconv.FormatInt(h.memory>>20, 10))
	}
	l = append(l, "--nic1", "nat", "--nictype1", h.card, "--cableconnected1", "on", "--natpf1", fmt.Sprintf("%s,tcp,127.0.0.1,%d,,%d", ourForwarding, h.port, guestPort))
	if h.closed {
		l = append(l, "--nat-localhostreachable1", "off")
	}
	for _, n := range h.others {
		l = append(l, "--nic"+strconv.Itoa(n), "none")
	}
	return append(lines, append(l, "--vrde", "off"))
}

// diskLines move the disk of a guest to a controller of a type.
func diskLines(uuid string, d disk, kind string) []line {
	bus, controller := "sata", emulatedDisk
	if kind == virtioDisk {
		bus, controller = "virtio", "VirtIO"
	}
	lines := []line{{"storageattach", uuid, "--storagectl", d.controller, "--port", strconv.Itoa(d.port), "--device", strconv.Itoa(d.device), "--medium", "none"}}
	if d.alone { // its place on the bus, and its being bootable, are free for the new one
		lines = append(lines, line{"storagectl", uuid, "--name", d.controller, "--remove"})
	}
	return append(lines,
		line{"storagectl", uuid, "--name", ourController, "--add", bus, "--controller", controller, "--portcount", "1"},
		line{"storageattach", uuid, "--storagectl", ourController, "--port", "0", "--device", "0", "--type", "hdd", "--medium", d.image},
	)
}

func startLine(uuid string) line    { return line{"startvm", uuid, "--type", "headless"} }
func powerOffLine(uuid string) line { return line{"controlvm", uuid, "poweroff"} }
func deleteLine(uuid string) line   { return line{"unregistervm", uuid, "--delete"} }
func forgetLine(uuid string) line   { return line{"unregistervm", uuid} }

// verb is the command of a line, for messages.
func (l line) verb() string {
	if len(l) > 1 && slices.Contains([]string{"list", "controlvm"}, l[0]) {
		return "VBoxManage " + l[0] + " " + l[len(l)-1]
	}
	return "VBoxManage " + l[0]
}
