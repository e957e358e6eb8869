// Package build knows what BEE's virtual machines boot: it gives the
// recipe by which the image cache builds a guest image from Debian's packages
// (phase 1 of the BEE paper, without root and without a VM), and finds the
// parts of a built one. It knows no hypervisor and builds nothing itself.
//
// A guest image is an image like any other in the cache, so it is listed,
// pushed, pulled and spread over hosts in the same way. Its tree holds
//
//	vmlinux      the kernel, uncompressed: a guest need not unpack it
//	modules/     the modules that reach the root file system, NN-name.ko in
//	             the order in which they load
//	root.sqfs    the root file system, a squashfs (lz4: quick to unpack)
//	qemu/        QEMU for hosts that have none (package qemu, Bundled), and
//	             virtiofsd, mke2fs and e2fsck (package dataimage, Tools)
//	packages     name and version of every Debian package in it
package build

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
)

// Options of a guest image, beyond what every one has.
type Options struct {
	// Suite is Debian's; empty: bookworm.
	Suite string
	// Snapshot is a date such as 20250520T000000Z, for bit-for-bit identity.
	Snapshot string
	// Mirror is the Debian mirror's URL; empty: as spec.Build says.
	Mirror string
	// Arch is the GOARCH of the guest; it decides the kernel package.
	Arch string
	// Emulated adds drivers of hardware that QEMU emulates: AHCI disks and e1000.
	Emulated bool
	// Disk makes it one of which a disk is made that boots by itself, on a cloud's machine: with
	// drivers of such machines, an EFI loader, and without QEMU.
	Disk bool
	// Packages are further Debian packages.
	Packages []string
	// Copy puts local files and directories into the root file system.
	Copy []spec.Copy
	// Run are shell commands, as root in the new root file system.
	Run []string
	// Scripts are local files that are run after that, by the interpreter that their
	// first line names, or by the shell until a command fails.
	Scripts []string
	// User is a further account of the guest, NAME or NAME:UID, which may use
	// docker.
	User string
	// Proxy is the URL by which docker and people in the guest reach the web,
	// NoProxy what they reach without it.
	Proxy, NoProxy string
	// DockerPackages are .deb files of another dockerd to install in place of
	// Debian's, such as Docker's own newest.
	DockerPackages []string
	// DockerRepository has another dockerd than Debian's; nil: Debian's, or
	// DockerPackages.
	DockerRepository *Repository
}

// Mark is in the environment of a guest image's configuration: by it they are
// distinguished from other images of the cache.
const Mark = "BEE_GUEST_IMAGE"

// Is reports whether an image is a guest image.
func Is(env []string) bool {
	return slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, Mark+"=") })
}

// base are the packages of every guest.
func base() []string {
	return []string{
		"kmod", "iproute2", "iptables", "procps", "e2fsprogs", "ca-certificates", "nfs-kernel-server", "nfs-common",
		"openssh-server", "ibverbs-providers", "rdma-core", "rsync", "squashfs-tools", "xz-utils",
	}
}

// byCrun has dockerd start containers by crun in place of runc, which takes an
// emulated machine seconds. Debian's crun need not know what another dockerd asks for:
// it refuses configurations of versions that came after it.
const byCrun = `[ -e /etc/docker/daemon.json ] || { mkdir -p /etc/docker
echo '{"default-runtime": "crun", "runtimes": {"crun": {"path": "/usr/bin/crun"}}}' > /etc/docker/daemon.json; }`

// Where files are in the new root file system that it does not keep.
const (
	debsDir    = "/bee-debs"
	scriptsDir = "/bee-scripts"
)

//go:embed trim.sh
var trim string

//go:embed finish.sh
var finish string

//go:embed hypervisor.sh
var hypervisor string

//go:embed loader.sh
var loader string

// account is the form of names that useradd takes.
const account = `^[a-z_][a-z0-9_-]{0,31}$`

// Check refuses what would be found out in the middle of a build.
func (o Options) Check() error {
	refuse := func(option, value, why, remedy string) error {
		return &core.Error{Kind: core.Invalid, Op: "read --" + option, Object: value, Err: errors.New(why), Remedy: remedy}
	}
	if o.Suite != "" && !spec.IsSuite(o.Suite) {
		return refuse("suite", o.Suite, "it is no name of a suite", "Such as bookworm.")
	}
	for _, p := range o.Packages {
		if !spec.IsPackage(p) {
			return refuse("package", p, "it is no name of a package", "Give --package once for each.")
		}
	}
	if name, uid, given := strings.Cut(o.User, ":"); o.User != "" {
		number, err := strconv.ParseUint(uid, 10, 32)
		switch {
		case !regexp.MustCompile(account).MatchString(name) || name == "root":
			return refuse("user", o.User, strconv.Quote(name)+" is no name for a further account", "Write NAME or NAME:UID, with a name such as ann.")
		case given && (err != nil || number == 0):
			return refuse("user", o.User, strconv.Quote(uid)+" is no number for a further account", "Write NAME or NAME:UID, such as ann:1000.")
		}
	}
	if u, err := url.Parse(o.Proxy); o.Proxy != "" && (err != nil || u.Scheme == "" || u.Host == "") {
		return refuse("proxy", o.Proxy, "it is no URL", "Such as http://proxy.example:3128.")
	}
	if o.NoProxy != "" && o.Proxy == "" {
		return refuse("no-proxy", o.NoProxy, "it means nothing without --proxy", "Name the proxy by --proxy URL, too, or leave it out.")
	}
	return nil
}

// Recipe is the build of a guest image.
func Recipe(o Options) spec.Build {
	if o.Suite == "" {
		o.Suite = "bookworm"
	}
	b := spec.Build{Debian: o.Suite, Slim: true, Snapshot: o.Snapshot, Mirror: o.Mirror, Packages: base(), Copy: o.Copy, Env: map[string]string{Mark: "1"}}
	if len(o.DockerPackages) == 0 && o.DockerRepository == nil {
		b.Packages = append(b.Packages, "docker.io", "crun")
		b.Run = append(b.Run, byCrun)
	}
	if o.Disk {
		b.Packages = append(b.Packages, machinePackages()...)
		b.Run = append(b.Run, strings.TrimSpace(machine))
		o.User = cmp.Or(o.User, MachineUser)
	}
	own := strings.Join(b.Packages, " ")
	b.Packages = append(b.Packages, o.Packages...)
	for _, deb := range o.DockerPackages {
		b.Copy = append(b.Copy, spec.Copy{From: deb, To: debsDir + "/" + path.Base(deb)})
	}
	if len(o.DockerPackages) > 0 {
		b.Run = append(b.Run, "apt-get install -y "+debsDir+"/*.deb && rm -r "+debsDir)
	}
	if o.DockerRepository != nil {
		o.DockerRepository.addTo(&b)
	}
	if o.User != "" {
		name, uid, given := strings.Cut(o.User, ":")
		// Without a word for its password the account is locked, by keys too.
		command := "useradd --create-home --shell /bin/bash --groups docker --password '*' "
		if given {
			command += "--uid " + shell.Quote(uid) + " "
		}
		b.Run = append(b.Run, command+shell.Quote(name))
	}
	if o.Proxy != "" {
		b.Run = append(b.Run, proxyScript(o.Proxy, o.NoProxy))
	}
	b.Run = append(b.Run, o.Run...)
	for i, file := range o.Scripts {
		at := fmt.Sprintf("%s/%d", scriptsDir, i)
		b.Copy = append(b.Copy, spec.Copy{From: file, To: at})
		b.Run = append(b.Run, fmt.Sprintf(`case $(head -c 2 %[1]s) in '#!') chmod 755 %[1]s; %[1]s ;; *) sh -e %[1]s ;; esac && rm %[1]s`, at))
	}
	if len(o.Scripts) > 0 {
		b.Run = append(b.Run, "rmdir "+scriptsDir)
	}
	b.Run = append(b.Run, fmt.Sprintf("BASE=%s\n%s", shell.Quote(own), strings.TrimSpace(trim)))
	kernel := "linux-image-" + o.Arch
	b.Run = append(b.Run, fmt.Sprintf("KERNEL=%s\n%s", kernel, strings.TrimSpace(finisher(o))))
	return b
}

// finisher is the last step of a build. Without further drivers it has the same text as ever,
// so that images which were built before are used still.
func finisher(o Options) string {
	drivers, boot, last, loading := "", "", hypervisor, ""
	if o.Emulated {
		drivers, boot = copyDrivers(emulatedDrivers), " ahci sd_mod"
	}
	if o.Disk {
		drivers, boot, last, loading = copyDrivers(emulatedDrivers+" "+cloudDrivers), " virtio_scsi nvme ahci ata_piix sd_mod ext4", loader, " vmlinuz loader.efi"
	}
	return strings.NewReplacer("@DRIVERS@", drivers, "@BOOT@", boot, "@HYPERVISOR@", last, "@LOADER@", loading).Replace(finish)
}

// proxyScript writes the file that BEE's guest agent gives docker as its
// environment, and that others read who keep to the custom.
func proxyScript(proxy, not string) string {
	var lines []string
	for _, key := range []string{"http_proxy", "https_proxy"} {
		lines = append(lines, key+"="+proxy, strings.ToUpper(key)+"="+proxy)
	}
	if not != "" {
		lines = append(lines, "no_proxy="+not, "NO_PROXY="+not)
	}
	return "printf '%s\\n' " + shell.Quote(strings.Join(lines, "\n")) + " >> /etc/environment"
}
