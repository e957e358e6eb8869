package vm

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// repackage makes of Debian's docker packages that are named, divided and numbered
// as Docker's own, and of no use beside Debian's.
const repackage = `set -e
apt-get download docker.io containerd runc
dpkg-deb -x docker.io_*.deb ce
mkdir -p cli/usr/bin buildx/usr/libexec/docker
mv ce/usr/bin/docker cli/usr/bin/
dpkg-deb -x containerd_*.deb io
dpkg-deb -x runc_*.deb io
needs() { dpkg-deb -f "$1"_*.deb Depends | sed 's/, /\n/g' | grep -v -e '^containerd' -e '^runc' | paste -s -d ,; }
pack() { # NAME TREE VERSION DEPENDS CONFLICTS
  mkdir "$2/DEBIAN"
  if [ "$1" = docker-ce ]; then
    printf '#!/bin/sh\ngroupadd --force --system docker\n' > "$2/DEBIAN/postinst"
    chmod 755 "$2/DEBIAN/postinst"
  fi
  printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: a test <a@test.example>\nDescription: a test\nDepends: %s\nConflicts: %s\n' \
    "$1" "$3" "$(dpkg --print-architecture)" "$4" "$5" > "$2/DEBIAN/control"
  dpkg-deb -Znone --root-owner-group -b "$2" "pool/$1.deb"
}
mkdir pool
pack docker-ce ce 5:99.1-1 "$(needs docker.io), containerd.io (>= 8), docker-ce-cli" docker.io
pack docker-ce-cli cli 5:99.1-1 libc6 docker.io
pack containerd.io io 8.2-1 "$(needs containerd)" 'containerd, runc'
pack docker-buildx-plugin buildx 0.99-1 docker-ce-cli docker-buildx
for deb in pool/*.deb; do
  dpkg-deb -f "$deb"
  printf 'Filename: %s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(stat -c %s "$deb")" "$(sha256sum "$deb" | cut -c -64)"
done > Packages`

// signKey makes a key, and has it sign what comes by standard input.
const signKey = `set -e
trap 'gpgconf --homedir "$1" --kill all' EXIT
gpg --homedir "$1" --batch --quiet --passphrase '' --quick-gen-key 'a test <a@test.example>' default default never
gpg --homedir "$1" --batch --quiet --armor --export > key
gpg --homedir "$1" --batch --quiet --clearsign`

// dockersRepository serves an apt repository with packages called as Docker's, and
// gives the line that names it, its key included.
func dockersRepository(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"apt-get", "dpkg-deb", "gpg"} {
		testkit.RequireTool(t, tool)
	}
	dir := t.TempDir()
	sh := func(script, input string, args ...string) string {
		t.Helper()
		c := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
		c.Dir, c.Stdin, c.Env = dir, strings.NewReader(input), append(os.Environ(), "LC_ALL=C")
		var errs strings.Builder
		c.Stderr = &errs
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %s%s", err, out, errs.String())
		}
		return string(out)
	}
	sh(repackage, "")
	index := "stable/binary-" + runtime.GOARCH + "/Packages"
	target := filepath.Join(dir, "dists/bookworm", index)
	packages, err := os.ReadFile(filepath.Join(dir, "Packages"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, packages, 0o644); err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "gpg") // short: gpg has a socket in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	release := sh(signKey, fmt.Sprintf("Suite: bookworm\nCodename: bookworm\nComponents: stable\nArchitectures: %s\nDate: Sat, 17 May 2025 08:45:21 UTC\nSHA256:\n %x %d %s\n",
		runtime.GOARCH, sha256.Sum256(packages), len(packages), index), home)
	if err := os.WriteFile(filepath.Join(dir, "dists/bookworm/InRelease"), []byte(release), 0o644); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return "deb [signed-by=" + filepath.Join(dir, "key") + "] " + server.URL + " bookworm stable"
}

// TestAGuestHasTheDockerOfARepository: what a signed apt repository has, its key
// checked, in place of Debian's; and containers run by it.
func TestAGuestHasTheDockerOfARepository(t *testing.T) {
	testkit.Long(t, "TestGuestImages")
	testkit.RequireTool(t, "mmdebstrap")
	line := dockersRepository(t)
	b := testkit.NewBee(t)
	image := strings.TrimSpace(b.Must("vm", "image", "build", "--docker-repository", line, "--user", "ann", "--package", "docker-compose"))
	t.Cleanup(func() { b.Must("vm", "image", "rm", image) })
	packages := packagesOf(b, image)
	for name, want := range map[string]string{
		"docker-ce": "5:99.1-1", "docker-ce-cli": "5:99.1-1", "containerd.io": "8.2-1", "docker-buildx-plugin": "0.99-1",
		"docker-compose-plugin": "", "docker.io": "", "containerd": "", "runc": "", "crun": "",
	} {
		if got := packages[name]; got != want {
			t.Errorf("the image has %s %q, want %q", name, got, want)
		}
	}
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	const memory = 2048
	rest := int(testkit.Number(t, string(raw), `MemAvailable: +(\d+) kB`))/1024 - memory/2
	job := func(name string, memory int) string {
		return b.File(name, fmt.Sprintf(`name: docker
build: {debian: bookworm, slim: true, packages: [socat]}
vm: {image: %q, memory: %dM}
run: touch /tmp/up; sleep 1000
`, image, memory))
	}
	id := strings.TrimSpace(b.Must("run", "--detach", job("job.yaml", memory)))
	awaitFile(t, b, id, "/tmp/up")
	// It has taken little of its memory, and all of it is its own.
	if r := b.Try("run", job("rest.yaml", rest)); r.Code == 0 || !strings.Contains(r.Stderr, fmt.Sprintf(" %d MiB", memory)) || !strings.Contains(r.Stderr, "run "+id+" ") || !strings.Contains(r.Stderr, "`wait: ") {
		t.Errorf("another that wants %d MiB: %d, %s", rest, r.Code, r.Stderr)
	}
	const seen = `docker version --format '{{.Server.Version}}' | grep -c '^[1-9]'; docker info --format '{{.DefaultRuntime}}'; id -nG ann
docker exec "$(docker ps -q)" ls /tmp/up; ls -d /bee-docker /etc/apt/sources.list.d/* /etc/apt/preferences.d/*`
	if got := b.Must("vm", "shell", id, "--", "sh", "-c", "("+seen+") 2>/dev/null; true"); got != "1\nrunc\nann docker\n/tmp/up\n" {
		t.Errorf("in the guest: %q", got)
	}
	const composed = `cd; printf 'services:\n  hello:\n    image: %s\n    network_mode: host\n    user: root\n    entrypoint: [sh, -c, echo composed > /there/word]\n    volumes: [there:/there]\nvolumes: {there: {}}\n' "$(docker ps --format '{{.Image}}')" > docker-compose.yml
docker-compose up 2>&1 && cat /var/lib/docker/volumes/*_there/_data/word && docker-compose down -v`
	if r := b.Try("vm", "shell", id, "--", "sh", "-c", composed); r.Code != 0 || !strings.Contains(r.Stdout, "composed\n") {
		t.Errorf("by docker-compose: %+v", r)
	}
	if got := b.Must("ssh", id, "-l", "ann", "--", "docker ps -q | wc -l; pwd"); got != "1\n/home/ann\n" {
		t.Errorf("by ssh the image's account says %q", got)
	}
	b.Must("stop", id)
}
