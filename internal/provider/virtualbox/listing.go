package virtualbox

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
)

// listed is a machine as `VBoxManage list` prints it.
type listed struct{ name, uuid string }

// pattern returns a pattern that is compiled at its first use: most processes of bee use none of them.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

var listedForm = pattern(`^"(.*)" \{([0-9A-Fa-f-]{36})\}$`)

// parseList reads `list vms`. Lines without a quotation mark at their beginning are warnings, such as of a kernel
// module; what looks like a machine and is none is refused, as a machine that is missed would count as gone.
func parseList(text string) (all []listed, err error) {
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		if !strings.HasPrefix(l, `"`) {
			continue
		}
		m := listedForm().FindStringSubmatch(l)
		if m == nil || !uuidForm().MatchString(strings.ToLower(m[2])) {
			return nil, unread("list", l)
		}
		found := listed{m[1], strings.ToLower(m[2])}
		if slices.ContainsFunc(all, func(o listed) bool { return o.uuid == found.uuid }) {
			return nil, unread("list", l)
		}
		all = append(all, found)
	}
	return all, nil
}

func unread(command, text string) error {
	return &core.Error{
		Kind: core.Permanent, Op: "read what was printed by", Object: "VBoxManage " + command, Err: fmt.Errorf("unexpected text %q", core.Printable(text, 200)),
		Remedy: "Is that program VirtualBox's VBoxManage?",
	}
}

// find returns the machine of a name or a UUID.
func find(all []listed, word string) (listed, error) {
	var found []listed
	for _, m := range all {
		if m.name == word || m.uuid == strings.ToLower(word) {
			found = append(found, m)
		}
	}
	refused := func(err error, remedy string) error {
		return &core.Error{Kind: core.Unsupported, Op: "find the VirtualBox machine", Object: strconv.Quote(core.Printable(word, 80)), Err: err, Remedy: remedy}
	}
	switch len(found) {
	case 0:
		return listed{}, refused(fmt.Errorf("VBoxManage does not list it among your machines (%d)", len(all)), "Prepare a machine of that name, or write the name of one at the site, as `virtualbox: {machine: …}`. `VBoxManage list vms` prints them.")
	case 1:
		return found[0], nil
	}
	return listed{}, refused(fmt.Errorf("%d machines have that name", len(found)), "Write the UUID of one at the site, as `virtualbox: {machine: …}`.")
}

func has(all []listed, uuid string) bool {
	return slices.ContainsFunc(all, func(m listed) bool { return m.uuid == uuid })
}

// info is what is needed of `showvminfo --machinereadable`.
type info struct {
	state  string
	cpus   int
	memory int64 // bytes
	card   string
	// others are the numbers of cards beside the first, and forwardings the names of those of the first.
	others      []int
	forwardings []string
	disks       []disk
	// shared are the names of directories of this machine that the guest sees.
	shared    []string
	snapshots map[string][]string // UUIDs by name
}

// disk is a hard disk of a machine.
type disk struct {
	controller   string
	kind         string // of the controller
	port, device int
	image        string // UUID
	alone        bool   // nothing else is on its controller
}

// inaccessible is what VBoxManage lists as the name of a machine whose files it cannot read.
const inaccessible = "<inaccessible>"

// mostMemoryMiB bounds what is read of a machine.
const mostMemoryMiB = mostMemory >> 20

var (
	pairForm    = pattern(`^"?([^"=]+)"?="?(.*?)"?$`)
	nameForm    = pattern(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,79}$`) // of what reaches a line beside UUIDs
	imageForm   = pattern(`^(.+)-ImageUUID-([0-9]{1,2})-([0-9]{1,2})$`)
	slotForm    = pattern(`^(.+)-([0-9]{1,2})-([0-9]{1,2})$`)
	cardForm    = pattern(`^nic([1-9][0-9]?)$`)
	controlForm = pattern(`^storagecontroller(name|type)([0-9]{1,2})$`)
)

// parseInfo reads a machine. It keeps no name of which VBoxManage would make something else than a name.
func parseInfo(text string) (*info, error) {
	v := &info{snapshots: map[string][]string{}}
	controllers, kinds := map[string]string{}, map[string]string{} // by number
	images := map[string]string{}                                  // UUIDs, by slot
	used := map[string]int{}                                       // slots, by controller
	media := map[string]string{}                                   // by slot
	snapshotNames := map[string]string{}
	nic := "1" // the card that lines are about; the forwardings of each stand after it
	for l := range strings.Lines(text) {
		m := pairForm().FindStringSubmatch(strings.TrimRight(l, "\r\n"))
		if m == nil {
			continue
		}
		key, value := m[1], m[2]
		switch c := cardForm().FindStringSubmatch(key); {
		case key == "VMState":
			v.state = value
		case key == "cpus":
			v.cpus, _ = strconv.Atoi(value) // checked below
		case key == "memory":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 1 || n > mostMemoryMiB {
				return nil, unread("showvminfo", key+"="+value)
			}
			v.memory = n << 20
		case key == "nictype1":
			v.card = value
		case c != nil:
			nic = c[1]
			if n, _ := strconv.Atoi(nic); value != "none" && n > 1 {
				if n > cards {
					return nil, unread("showvminfo", key+"="+value)
				}
				v.others = append(v.others, n)
			}
		case strings.HasPrefix(key, "Forwarding("):
			if name, _, _ := strings.Cut(value, ","); nic == "1" {
				v.forwardings = append(v.forwardings, name)
			}
		case strings.HasPrefix(key, "SharedFolderName"):
			v.shared = append(v.shared, value)
		case strings.HasPrefix(key, "SnapshotName"):
			snapshotNames[strings.TrimPrefix(key, "SnapshotName")] = value
		case strings.HasPrefix(key, "SnapshotUUID"):
			if name, is := snapshotNames[strings.TrimPrefix(key, "SnapshotUUID")]; is {
				v.snapshots[name] = append(v.snapshots[name], strings.ToLower(value))
			}
		}
		if c := controlForm().FindStringSubmatch(key); c != nil && c[1] == "name" {
			controllers[c[2]] = value
		} else if c != nil {
			kinds[c[2]] = value
		}
		if c := imageForm().FindStringSubmatch(key); c != nil {
			images[c[1]+"-"+c[2]+"-"+c[3]] = strings.ToLower(value)
		} else if c := slotForm().FindStringSubmatch(key); c != nil && value != "none" {
			media[key] = value
			used[c[1]]++
		}
	}
	if v.state == "" || v.cpus < 1 || v.cpus > mostCPUs || v.memory == 0 {
		return nil, unread("showvminfo", fmt.Sprintf("a machine with VMState=%q, cpus=%d, memory=%d", v.state, v.cpus, v.memory))
	}
	if err := named(append(slices.Clone(v.forwardings), keysOf(controllers)...)); err != nil {
		return nil, err
	}
	for number, name := range controllers {
		for slot, medium := range media {
			c := slotForm().FindStringSubmatch(slot)
			image, has := images[slot]
			if c[1] != name || !has || isDVD(medium) {
				continue
			}
			if !uuidForm().MatchString(image) {
				return nil, unread("showvminfo", slot+" is "+image)
			}
			d := disk{controller: name, kind: kinds[number], image: image, alone: used[name] == 1}
			d.port, _ = strconv.Atoi(c[2])
			d.device, _ = strconv.Atoi(c[3])
			v.disks = append(v.disks, d)
		}
	}
	return v, nil
}

// isDVD reports whether a medium is that of a drive for DVDs or floppies.
func isDVD(medium string) bool {
	medium = strings.ToLower(medium)
	return medium == "emptydrive" || slices.ContainsFunc([]string{".iso", ".viso", ".dmg", ".cdr", ".img", ".ima", ".flp", ".vfd"}, func(end string) bool { return strings.HasSuffix(medium, end) })
}

func keysOf(m map[string]string) (values []string) {
	for _, v := range m {
		values = append(values, v)
	}
	return values
}

// named refuses names that VBoxManage could take for an option or a file of arguments.
func named(names []string) error {
	for _, n := range names {
		if !nameForm().MatchString(n) {
			return &core.Error{
				Kind: core.Unsupported, Op: "use the VirtualBox machine with the name", Object: strconv.Quote(core.Printable(n, 80)), Err: errors.New("expected a name of a controller or a port forwarding that begins with a letter or digit, and has letters, digits, spaces and the signs . _ - alone"),
				Remedy: "Rename it in VirtualBox.",
			}
		}
	}
	return nil
}

var versionForm = pattern(`^([0-9]{1,3})\.([0-9]{1,3})\.[0-9]`)

// The first version with para-virtual disks.
const (
	leastMajor = 6
	leastMinor = 1
)

// parseVersion reads `--version`, such as 7.0.20r163906, behind warnings.
func parseVersion(text string) (version string, major int, err error) {
	for l := range strings.Lines(text) {
		m := versionForm().FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			continue
		}
		version = core.Printable(strings.TrimSpace(l), 40)
		major, _ = strconv.Atoi(m[1])
		minor, _ := strconv.Atoi(m[2])
		if major < leastMajor || major == leastMajor && minor < leastMinor {
			return version, major, &core.Error{
				Kind: core.Unsupported, Op: "use", Object: "VirtualBox " + version, Err: fmt.Errorf("it is older than %d.%d, which has para-virtual disks", leastMajor, leastMinor),
				Remedy: "Install a newer VirtualBox.",
			}
		}
		return version, major, nil
	}
	return "", 0, unread("--version", text)
}
