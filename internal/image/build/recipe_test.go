package build

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestRecipe(t *testing.T) {
	b := Recipe(Options{
		Arch: "arm64", Packages: []string{"htop"}, Copy: []spec.Copy{{From: "/a", To: "/b"}}, Run: []string{"true"}, User: "ann:1234", Snapshot: "20250520T000000Z",
		DockerPackages: []string{"/x/docker-ce.deb"},
	})
	if b.Debian != "bookworm" || b.Snapshot == "" || len(b.Copy) != 2 || b.Env[Mark] == "" {
		t.Errorf("got %+v", b)
	}
	packages := strings.Join(b.Packages, " ")
	if !strings.Contains(packages, "htop") || strings.Contains(packages, "docker.io") || strings.Contains(packages, "crun") {
		t.Errorf("its packages are %s", packages)
	}
	if own := Recipe(Options{Arch: "arm64"}); !slices.Contains(own.Packages, "crun") || own.Run[0] != byCrun {
		t.Errorf("with Debian's docker: %v, %q", own.Packages, own.Run)
	}
	if n := len(b.Run); n != 5 || !strings.Contains(b.Run[1], "--uid '1234' 'ann'") || !strings.Contains(b.Run[1], "--password '*'") || b.Run[2] != "true" || !strings.HasPrefix(b.Run[3], "BASE='kmod ") ||
		strings.Contains(b.Run[3], "docker.io") || strings.Contains(b.Run[3], "htop") || !strings.HasPrefix(b.Run[4], "KERNEL=linux-image-arm64\n") {
		t.Errorf("it runs %q", b.Run[:len(b.Run)-1])
	}
}

// TestEmulatedDevices: a guest has drivers of emulated devices only where they are asked for,
// and the usual image has the text that it was built by before.
func TestEmulatedDevices(t *testing.T) {
	usual, with := Recipe(Options{Arch: "amd64"}), Recipe(Options{Arch: "amd64", Emulated: true})
	last := len(usual.Run) - 1
	if text := usual.Run[last]; strings.Contains(text, "e1000") || strings.Contains(text, "@") && !strings.Contains(text, "$@") || !strings.Contains(text, "squashfs overlay; do") || !strings.Contains(text, "\ndepmod \"$version\"") {
		t.Errorf("the usual guest: %s", text)
	}
	if text := with.Run[last]; !strings.Contains(text, "e1000/e1000; do") || !strings.Contains(text, "overlay ahci sd_mod; do") {
		t.Errorf("a guest with emulated devices: %s", text)
	}
}

// TestDisk: a guest of which a disk is made has what its firmware loads and drivers of clouds' machines, and no QEMU.
func TestDisk(t *testing.T) {
	b := Recipe(Options{Arch: "amd64", Disk: true})
	last := b.Run[len(b.Run)-1]
	for _, want := range []string{"amazon/ena/ena", "nvme/host/nvme", "overlay virtio_scsi nvme", "/loader.efi", "qemu vmlinuz loader.efi bee-build"} {
		if !strings.Contains(last, want) {
			t.Errorf("the last step has no %q", want)
		}
	}
	if strings.Contains(last, "virtiofsd") || strings.Contains(strings.ReplaceAll(last, "$@", ""), "@") {
		t.Errorf("it has a hypervisor, or a place that nothing fills: %s", last)
	}
	if !slices.Contains(b.Packages, "isc-dhcp-client") || !slices.ContainsFunc(b.Run, func(r string) bool {
		return strings.Contains(r, "useradd") && strings.HasSuffix(r, "'"+MachineUser+"'")
	}) {
		t.Errorf("packages %q, commands %q", b.Packages, b.Run[:len(b.Run)-1])
	}
	if own := Recipe(Options{Arch: "amd64", Disk: true, User: "ann"}); slices.ContainsFunc(own.Run, func(r string) bool { return strings.Contains(r, "useradd") && strings.Contains(r, MachineUser) }) {
		t.Error("with an account of the user's it has another")
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	var refused testkit.ErrorList
	for _, c := range []struct {
		name string
		o    Options
		good bool
	}{
		{"none", Options{}, true},
		{"all", Options{Suite: "trixie", Packages: []string{"g++", "?name(^perl$)"}, User: "ann:1000", Proxy: "socks5://p:1080", NoProxy: "localhost"}, true},
		{"an account", Options{User: "_ann-2"}, true},
		{"a suite with a blank", Options{Suite: "bad suite"}, false},
		{"two packages", Options{Packages: []string{"htop", "a b"}}, false},
		{"an option", Options{Packages: []string{"-x"}}, false},
		{"two colons", Options{User: "a:b:c"}, false},
		{"a slash", Options{User: "Bad/Name"}, false},
		{"a colon", Options{User: ":1"}, false},
		{"root", Options{User: "root"}, false},
		{"root's number", Options{User: "ann:0"}, false},
		{"no URL", Options{Proxy: "proxy:3128"}, false},
		{"nothing but no-proxy", Options{NoProxy: "localhost"}, false},
	} {
		err := c.o.Check()
		if (err == nil) != c.good || err != nil && (!core.IsKind(err, core.Invalid) || core.Remedy(err) == "") {
			t.Errorf("%s: %v", c.name, err)
		}
		refused.Add(c.name, err)
	}
	refused.Compare(t, "options")
}

// TestScriptsAreRunByWhatTheyName has a shell do what a build does in the new root file
// system, whose place another directory takes.
func TestScriptsAreRunByWhatTheyName(t *testing.T) {
	b := Recipe(Options{Arch: "amd64", Run: []string{"first"}, Scripts: []string{"/a/bash.sh", "/a/plain"}})
	at := slices.Index(b.Run, "first") + 1
	if !slices.Contains(b.Copy, spec.Copy{From: "/a/plain", To: scriptsDir + "/1"}) || at == 0 {
		t.Fatalf("got %+v, %q", b.Copy, b.Run)
	}
	for name, c := range map[string]struct {
		scripts [2]string
		says    string
		fails   bool
	}{
		"both":            {[2]string{"#!/bin/bash\na=(1 2)\nfalse\necho ${a[1]}\n", "echo plain\n"}, "2\nplain\n", false},
		"the named fails": {[2]string{"#!/bin/bash\nexit 3\n", "echo plain\n"}, "", true},
		"the plain fails": {[2]string{"#!/bin/sh\n", "false\necho on\n"}, "", true},
	} {
		dir := filepath.Join(t.TempDir(), "scripts")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "0"), []byte(c.scripts[0]), 0o600), os.WriteFile(filepath.Join(dir, "1"), []byte(c.scripts[1]), 0o600)); err != nil {
			t.Fatal(err)
		}
		var printed []byte
		var err error
		for _, step := range b.Run[at : at+3] {
			var out []byte
			out, err = exec.Command("/bin/sh", "-ec", strings.ReplaceAll(step, scriptsDir, dir)).Output()
			if printed = append(printed, out...); err != nil {
				break
			}
		}
		if (err != nil) != c.fails || string(printed) != c.says {
			t.Errorf("%s: %q, %v", name, printed, err)
		}
		if _, left := os.Stat(dir); !c.fails && left == nil {
			t.Errorf("%s: %s stays", name, dir)
		}
	}
}

// TestTheBuildersAptIsNotInTheImage: what is left of it is removed before the root
// file system is packed.
func TestTheBuildersAptIsNotInTheImage(t *testing.T) {
	before, _, packed := strings.Cut(finish, "mksquashfs /")
	if !packed {
		t.Fatal("nothing is packed")
	}
	for _, name := range []string{"apt.conf.d/99mmdebstrap", "sources.list", "sources.list.d/*"} {
		if !slices.ContainsFunc(strings.Split(before, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "rm -f ") && slices.Contains(strings.Fields(line), "/etc/apt/"+name)
		}) {
			t.Errorf("the image is packed with the host's %s", name)
		}
	}
}

// TestWhereItIsMadeIsNotInTheImage: what the builder mounts is of another owner and
// date each time, and the packed file system is the same.
func TestWhereItIsMadeIsNotInTheImage(t *testing.T) {
	testkit.RequireTool(t, "mksquashfs")
	_, rest, _ := strings.Cut(finish, "\nmksquashfs / /bee-build/root.sqfs ")
	options, _, packed := strings.Cut(rest, "\nmv ")
	if !packed {
		t.Fatal("nothing is packed")
	}
	var images [2][]byte
	for n, mode := range []os.FileMode{0o755, 0o700} {
		root, packed := t.TempDir(), filepath.Join(t.TempDir(), "root.sqfs")
		then := time.Unix(1_500_000_000, 0)
		if err := os.WriteFile(filepath.Join(root, "file"), []byte("the same"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"proc", "sys", "dev", "tmp"} {
			if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range []string{"proc", "sys", "dev"} {
			at := filepath.Join(root, dir)
			if err := errors.Join(os.WriteFile(filepath.Join(at, "entry"), nil, 0o644), os.Chmod(at, mode), os.Chtimes(at, then, then.Add(time.Duration(n)*time.Hour))); err != nil {
				t.Fatal(err)
			}
		}
		for _, at := range []string{"file", "tmp", "."} {
			if err := os.Chtimes(filepath.Join(root, at), then, then); err != nil {
				t.Fatal(err)
			}
		}
		c := exec.Command("sh", "-c", `mksquashfs "$0" "$1" `+options, root, packed)
		c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1600000000")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if images[n], err = os.ReadFile(packed); err != nil {
			t.Fatal(err)
		}
		if list, err := exec.Command("unsquashfs", "-lls", "-d", "", packed).Output(); err != nil || strings.Contains(string(list), "entry") || !strings.Contains(string(list), "dr-xr-xr-x root/root") {
			t.Errorf("%v: %s", err, list)
		}
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two images differ")
	}
}

func TestMark(t *testing.T) {
	if !Is([]string{"PATH=/", Mark + "=1"}) || Is([]string{"PATH=/"}) || Is(nil) {
		t.Error("guest images are not told from others")
	}
}

// TestWhatTheUserAskedForStays runs the script that leaves things out, on a
// made-up tree, with an apt that says what Debian's says.
func TestWhatTheUserAskedForStays(t *testing.T) {
	const python, zones = "usr/lib/python3.11/os.py", "usr/share/zoneinfo/UTC"
	for name, c := range map[string]struct {
		manual string // packages that nothing else brought in
		stays  []string
	}{
		"BEE's own packages only":       {"dash nfs-common docker.io", nil},
		"a package that needs Python":   {"dash nfs-common docker-compose", []string{python}},
		"Python by BEE's and by itself": {"dash nfs-common python3", []string{python}},
		"the time zones":                {"dash tzdata nfs-common", []string{zones}},
	} {
		t.Run(name, func(t *testing.T) {
			tree, bin := t.TempDir(), t.TempDir()
			for _, file := range []string{python, zones, "usr/bin/python3.11"} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(tree, file)), 0o755), os.WriteFile(filepath.Join(tree, file), nil, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			for program, text := range map[string]string{
				"apt-mark": "printf '%s\\n' " + c.manual,
				"apt-cache": `for p; do case $p in
nfs-common|docker-compose|python3) printf '%s\n' $p '  Depends: <python3:any>' '    python3' python3 '  Depends: python3.11' libpython3.11-minimal '  Depends: libc6' ;;
-*|depends) ;;
*) echo "$p" ;;
esac; done`,
			} {
				if err := core.WriteProgram(filepath.Join(bin, program), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("sh", "-ec", "BASE='nfs-common docker.io'\n"+trim)
			cmd.Dir, cmd.Env = tree, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, file := range []string{python, zones} {
				if _, err := os.Stat(filepath.Join(tree, file)); (err == nil) != slices.Contains(c.stays, file) {
					t.Errorf("%s: %v", file, err)
				}
			}
		})
	}
}

// TestProxy has a shell write what the guest's agent reads.
func TestProxy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "environment")
	script := strings.ReplaceAll(proxyScript("http://it's:3128", "localhost"), "/etc/environment", file)
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "http_proxy=http://it's:3128\nHTTP_PROXY=http://it's:3128\nhttps_proxy=http://it's:3128\nHTTPS_PROXY=http://it's:3128\nno_proxy=localhost\nNO_PROXY=localhost\n"
	if string(raw) != want {
		t.Errorf("got %q", raw)
	}
}
