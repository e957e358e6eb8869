package guestimage

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
)

func TestRecipe(t *testing.T) {
	b := Recipe(Options{Arch: "arm64", Packages: []string{"htop"}, Copy: []spec.Copy{{From: "/a", To: "/b"}}, Run: []string{"true"}, User: "ann:1234", Snapshot: "20250520T000000Z",
		DockerPackages: []string{"/x/docker-ce.deb"}})
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
	if n := len(b.Run); n != 4 || !strings.Contains(b.Run[1], "--uid '1234' 'ann'") || b.Run[2] != "true" || !strings.HasPrefix(b.Run[3], "KERNEL=linux-image-arm64\n") {
		t.Errorf("it runs %q", b.Run[:len(b.Run)-1])
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

func TestMark(t *testing.T) {
	if !Is([]string{"PATH=/", Mark + "=1"}) || Is([]string{"PATH=/"}) || Is(nil) {
		t.Error("guest images are not told from others")
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
