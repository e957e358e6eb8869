package vm

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// firmware is the directory of Debian's package ovmf.
const firmware = "/usr/share/OVMF"

// given is what a provider gives a machine for its first boot, and files by which the submitting machine then logs in: its key,
// and the host's key that it expects.
type given struct {
	script     string
	expires    int64
	key, known string
}

// rentedAs has a bee push an image to a cloud and rent a machine of it there, which never boots. It returns what the cloud got
// for that machine.
func rentedAs(t *testing.T, b *testkit.Bee, image string) given {
	t.Helper()
	s := openstackserver.Start(t)
	s.Hold(true)
	b.Env = append(append(b.Env, s.Env()...), "BEE_SITES="+b.File("rented.yaml", fmt.Sprintf(`sites:
  - name: campus
    provider: openstack
    slot: 1h
    openstack:
      types: [%s]
      image: bee:%s
      network: {name: %s, ssh_from: [203.0.113.7/32]}
`, openstackserver.Small, image, openstackserver.Private)))
	b.Must("cloud", "image", "push", image, "--site", "campus")
	job := b.File("job.yaml", "image: docker-archive:"+testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})+"\nrun: 'true'\n")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	var raw []byte
	testkit.Eventually(t, time.Minute, func() error {
		requests := s.Bodies("POST /compute/v2.1/servers")
		if len(requests) == 0 {
			return b.Explained(id, "no machine is rented")
		}
		var q struct {
			Server struct {
				Script string `json:"user_data"`
			}
		}
		err := json.Unmarshal([]byte(requests[0]), &q)
		if err == nil {
			raw, err = base64.StdEncoding.DecodeString(q.Server.Script)
		}
		return err
	})
	g := given{script: string(raw)}
	if found := regexp.MustCompile(`left=\$\(\((\d+) - now\)\)`).FindStringSubmatch(g.script); found == nil {
		t.Fatalf("the start script has no expiry:\n%s", g.script)
	} else if _, err := fmt.Sscan(found[1], &g.expires); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	g.key, g.known = filepath.Join(dir, "login"), filepath.Join(dir, "known_hosts")
	for _, to := range []string{g.key, g.known} {
		from, err := filepath.Glob(filepath.Join(b.Dir, "state", "cloud", "campus", "leases", "*", filepath.Base(to)))
		if err != nil || len(from) != 1 {
			t.Fatalf("%q, %v", from, err)
		}
		raw, err := os.ReadFile(from[0])
		if err := cmp.Or(err, os.WriteFile(to, raw, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	b.Must("stop", id)
	b.Await(id, time.Minute)
	b.Must("cloud", "image", "rm", image, "--site", "campus")
	if left := append(s.Left(), s.Images()...); len(left) > 0 {
		t.Errorf("left in the cloud: %q", left)
	}
	return g
}

// login returns a command on a machine at a port of this one, by its image's own login user.
func (g given) login(ctx context.Context, port int, command string) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", "-F", "/dev/null", "-p", strconv.Itoa(port), "-i", g.key, "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
		"-o", "UserKnownHostsFile="+g.known, "-o", "GlobalKnownHostsFile=/dev/null", "-o", "ConnectTimeout=60", "bee@127.0.0.1", command)
}

// asUser is what the login user runs: its user, what the machine has, and a container, whose programs are the machine's.
const asUser = `set -e
echo "TEST user $(id -un)"
cat /etc/bee/host_key.pub
echo "TEST host $(uname -n)"
echo "TEST room $(df --output=size -k /var/lib/bee | tail -n 1)"
echo "TEST address $(ip -4 -o addr show scope global | grep -cv docker)"
echo "TEST resolver $(tr '\n' ' ' </etc/resolv.conf)"
guards=0
for f in /proc/[0-9]*/cmdline; do
	mapfile -d '' -t words <"$f" || continue
	[ "${words[*]}" != 'sh /etc/bee/guard' ] || guards=$((guards + 1)) # and not what starts it again, nor this shell
done 2>/dev/null
echo "TEST guards $guards"
until docker version >/dev/null 2>&1; do sleep 1; done
tar -cf - -T /dev/null | docker import - own >/dev/null
echo "TEST container $(docker run --rm --network none -v /usr:/usr -v /bin:/bin -v /lib:/lib -v /lib64:/lib64 own /bin/echo runs)"
`

// asRoot runs a program as the root of a container that has the machine's files, and may do what the machine's may.
const asRoot = `docker run -i --rm --privileged --network none -v /:/host -v /usr:/usr -v /bin:/bin -v /lib:/lib -v /lib64:/lib64 own `

// What it runs: the guard of the next boot is another one, and the time is that at which the one that runs ends the machine.
const (
	setGuard = asRoot + `/bin/sh -ec 'cat >/host/etc/bee/guard.next && mv /host/etc/bee/guard.next /host/etc/bee/guard'`
	setClock = asRoot + `/bin/date -s @%d`
)

// guard is what ends the machine at its next boot. What it prints is on the console, where the test reads it.
const guard = `echo "TEST guard, kept $(cat /var/lib/bee/instance)" >/dev/console
echo "TEST room $(df --output=size -k /var/lib/bee | tail -n 1)" >/dev/console
poweroff
`

// configDrive makes a drive with a configuration and a start script, as OpenStack gives its machines one.
func configDrive(t *testing.T, path, script string) {
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
	for name, text := range map[string]string{"meta_data.json": `{"uuid": "` + machineID + `", "hostname": "worker.novalocal"}`, "user_data": script} {
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
// arguments of QEMU. Its ssh answers at a port of this machine. The function that it returns waits until the machine has
// powered itself off, and returns what was on the console.
func bootMachine(t *testing.T, dir string, port int, further ...string) (off func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{
		"-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "2048", "-uuid", machineID,
		"-drive", "if=pflash,format=raw,readonly=on,file=" + filepath.Join(firmware, "OVMF_CODE.fd"), "-drive", "if=pflash,format=raw,file=" + filepath.Join(dir, "vars"),
		"-drive", "if=none,id=disk,format=raw,cache=unsafe,file=" + filepath.Join(dir, "disk"), "-device", "nvme,serial=disk,drive=disk,bootindex=1",
		"-netdev", "user,id=net,ipv6=off,dns=" + nameServer + ",hostfwd=tcp:127.0.0.1:" + strconv.Itoa(port) + "-:22", "-device", "virtio-net-pci,netdev=net,romfile=", "-serial", "stdio",
	}, further...)...)
	console, err := os.Create(filepath.Join(t.TempDir(), "console"))
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	c.Stdout, c.Stderr = console, console
	begun := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	return func() string {
		err := <-ended
		out, rerr := os.ReadFile(console.Name())
		if err := errors.Join(err, rerr); err != nil {
			t.Fatalf("after %v: %v\n%s", time.Since(begun).Round(time.Second), err, out)
		}
		return string(out)
	}
}

// TestMachineBootsByUEFI boots an image for rented machines as a cloud does: by the machine's own firmware, from a disk of
// NVMe that is larger than the image, with a drive that has its configuration. Its start script is the one that bee has sent to
// a cloud for a machine of that image. The machine then answers by ssh with the key that was given to it, its login user has
// Docker, and it powers itself off at its expiry. What ends it then is started at the next boot, too, though the cloud has no
// answer then. The disk is larger again there, and the machine has its room.
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
	g := rentedAs(t, b, name)
	configDrive(t, filepath.Join(dir, "config"), g.script)
	if err := errors.Join(os.Chmod(disk, 0o600), os.Truncate(disk, size)); err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePort(t)
	off := bootMachine(t, dir, port, "-drive", "if=virtio,format=raw,readonly=on,file="+filepath.Join(dir, "config"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	var seen []byte
	testkit.Eventually(t, 10*time.Minute, func() error {
		var err error
		if seen, err = g.login(ctx, port, asUser).Output(); err != nil {
			err = fmt.Errorf("by ssh: %w", err)
		}
		return err
	})
	for _, want := range []string{"TEST user bee", "ecdsa-sha2-nistp256 ", "TEST host worker", "TEST address 1", "TEST resolver nameserver " + nameServer, "TEST guards 1", "TEST container runs"} {
		if !strings.Contains(string(seen), want) {
			t.Errorf("by ssh, there is no %q:\n%s", want, seen)
		}
	}
	hasRoom(t, string(seen), size-list[at].Size)
	root := g.login(ctx, port, setGuard)
	root.Stdin = strings.NewReader(guard)
	if out, err := root.CombinedOutput(); err != nil {
		t.Errorf("as root: %v: %s", err, out)
	}
	if out, err := g.login(ctx, port, fmt.Sprintf(setClock, g.expires+1)).CombinedOutput(); err != nil {
		t.Logf("whether the clock was set is seen by the end of the machine, which may have cut this off: %v: %s", err, out)
	}
	if console := off(); !strings.Contains(console, "bee: docker answers") {
		t.Errorf("the console has\n%s", console)
	}
	if err := os.Truncate(disk, later); err != nil {
		t.Fatal(err)
	}
	console := bootMachine(t, dir, port)()
	if !strings.Contains(console, "TEST guard") || !strings.Contains(console, `"started":true`) {
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
