package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
)

// firmware is the directory of Debian's package ovmf.
const firmware = "/usr/share/OVMF"

// startScript is what a machine runs at its first boot. What it prints is on the console, where the test reads it.
const startScript = `#!/bin/sh
echo "TEST host $(hostname)"
echo "TEST room $(df --output=size -k /var/lib/bee | tail -n 1)"
echo "TEST address $(ip -4 -o addr show scope global | wc -l)"
echo "TEST resolver $(tr '\n' ' ' </etc/resolv.conf)"
until docker version >/dev/null 2>&1; do sleep 1; done
tar -C /run/bee -c bee | docker import - own >/dev/null
echo "TEST container $(docker run --rm --network none own /bee version | head -n 1)"
mkdir -p /etc/bee
cat >/etc/bee/guard <<'END'
echo "TEST guard, kept $(cat /var/lib/bee/instance)" >/dev/console
echo "TEST room $(df --output=size -k /var/lib/bee | tail -n 1)" >/dev/console
poweroff
END
poweroff
`

// configDrive makes a drive with a configuration, as OpenStack gives its machines one.
func configDrive(t *testing.T, path string) {
	t.Helper()
	const size = 64 << 20
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	drive, err := fat32.Create(file.New(f, false), size, 0, 512, "CONFIG-2", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := drive.Mkdir("/openstack/latest"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"meta_data.json": `{"uuid": "` + machineID + `", "hostname": "worker.novalocal"}`, "user_data": startScript} {
		out, err := drive.OpenFile("/openstack/latest/"+name, os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		_, err = out.Write([]byte(text))
		if err := cmp.Or(err, out.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Of the machine's cloud. QEMU's own name server would be 10.0.2.3.
const (
	machineID  = "2b6d8c1e-0000-4000-8000-000000000001"
	nameServer = "10.0.2.77"
)

// bootMachine boots disks by UEFI in an emulated machine, as a device of KVM that opens need not work, with further
// arguments of QEMU. It returns what was on the console when the machine has powered itself off.
func bootMachine(t *testing.T, dir string, further ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{
		"-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "2048", "-uuid", machineID,
		"-drive", "if=pflash,format=raw,readonly=on,file=" + filepath.Join(firmware, "OVMF_CODE.fd"), "-drive", "if=pflash,format=raw,file=" + filepath.Join(dir, "vars"),
		"-drive", "if=none,id=disk,format=raw,cache=unsafe,file=" + filepath.Join(dir, "disk"), "-device", "nvme,serial=disk,drive=disk,bootindex=1",
		"-netdev", "user,id=net,ipv6=off,dns=" + nameServer, "-device", "virtio-net-pci,netdev=net,romfile=", "-serial", "stdio",
	}, further...)...)
	begun := time.Now()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("after %v: %v\n%s", time.Since(begun).Round(time.Second), err, out)
	}
	return string(out)
}

// TestMachineBootsByUEFI boots an image for rented machines as a cloud does: by the machine's own firmware, from a disk of
// NVMe that is larger than the image, with a drive that has its configuration. The start script runs at the first boot only.
// What ends the machine at its expiry is started at the next one, too, though the cloud has no answer then. The disk is
// larger again there, and the machine has its room.
func TestMachineBootsByUEFI(t *testing.T) {
	besideOthers(t)
	testkit.Long(t, "TestWrite")
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	if _, err := os.Stat(firmware); err != nil {
		testkit.Missing(t, "ovmf is not installed: %v", err)
	}
	b := testkit.NewBee(t)
	const name = "boots-by-uefi" // in a cache that tests share
	b.Must("cloud", "image", "build", name)
	t.Cleanup(func() { b.Must("cloud", "image", "rm", name) })
	type image struct {
		Name string `json:"name"`
		File string `json:"file"`
		Size int64  `json:"size_bytes"`
	}
	var list []image
	b.JSON(&list, "cloud", "image", "ls", "--json")
	at := slices.IndexFunc(list, func(i image) bool { return i.Name == name })
	if at < 0 {
		t.Fatalf("listed are %+v", list)
	}
	dir := t.TempDir()
	const size, later = 6 << 30, 8 << 30
	disk, vars := filepath.Join(dir, "disk"), filepath.Join(dir, "vars")
	for to, from := range map[string]string{disk: list[at].File, vars: filepath.Join(firmware, "OVMF_VARS.fd")} {
		if out, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	configDrive(t, filepath.Join(dir, "config"))
	if err := errors.Join(os.Chmod(disk, 0o600), os.Truncate(disk, size)); err != nil {
		t.Fatal(err)
	}
	console := bootMachine(t, dir, "-drive", "if=virtio,format=raw,readonly=on,file="+filepath.Join(dir, "config"))
	for _, want := range []string{"TEST host worker", "TEST address 1", "TEST resolver nameserver " + nameServer, "TEST container bee", "bee: docker answers"} {
		if !strings.Contains(console, want) {
			t.Errorf("the console has no %q:\n%s", want, console)
		}
	}
	hasRoom(t, console, size-list[at].Size)
	if err := os.Truncate(disk, later); err != nil {
		t.Fatal(err)
	}
	console = bootMachine(t, dir)
	if !strings.Contains(console, "TEST guard") || !strings.Contains(console, `"started":true`) || strings.Contains(console, "TEST host") {
		t.Errorf("at the second boot the console has\n%s", console)
	}
	hasRoom(t, console, later-list[at].Size)
}

// hasRoom checks that the root has nearly as many bytes as the disk has for it.
func hasRoom(t *testing.T, console string, want int64) {
	t.Helper()
	var room int64
	if found := regexp.MustCompile(`TEST room +(\d+)`).FindStringSubmatch(console); found == nil {
		t.Errorf("the root has no size:\n%s", console)
	} else if _, err := fmt.Sscan(found[1], &room); err != nil || room<<10 < want*9/10 {
		t.Errorf("the root has %d KiB, expected nearly %d (%v):\n%s", room, want>>10, err, console)
	}
}
