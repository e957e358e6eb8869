package release

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// ordinary is a user with subordinate ids, by which images are built; else nobody.
func ordinary(t *testing.T) *syscall.Credential {
	t.Helper()
	const nobody = 65534
	raw, err := os.ReadFile("/etc/subuid")
	if err != nil {
		t.Log(err)
	}
	for line := range strings.Lines(string(raw)) {
		name, _, _ := strings.Cut(line, ":")
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid > 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	if testkit.Everything() {
		t.Fatal("no user has subordinate ids in /etc/subuid, to build an image of packages")
	}
	return &syscall.Credential{Uid: nobody, Gid: nobody}
}

// testFirstMinutes follows the first page as an ordinary user in an empty home: from
// install.sh to the output of an own image, and with the long tests to an MPI run over two
// nodes, whose image is built. These run on a Debian 12 that has nothing else.
func testFirstMinutes(t *testing.T, dist string) {
	page, err := os.ReadFile(filepath.Join(testkit.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := func(pattern string) string {
		found := regexp.MustCompile("(?ms)^```yaml\n(" + pattern + ".*?)^```").FindSubmatch(page)
		if found == nil {
			t.Fatalf("the first page has no block %s", pattern)
		}
		return string(found[1])
	}
	for _, line := range []string{"sh dist/install.sh --from dist", "bee check job.yaml", "bee plan job.yaml", "bee run job.yaml", "bee show pi", "bee init", "bee init --from run.sbatch", "bee init --sites"} {
		if !bytes.Contains(page, []byte("    "+line+"\n")) {
			t.Errorf("the first page does not show %q", line)
		}
	}
	home, err := os.MkdirTemp("/tmp", "bee-first-minutes-") // the user enters no directory of root's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(home, 0o755); err != nil { // as homes are
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(home, "dist"), os.DirFS(dist)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(home, "input"), os.DirFS(filepath.Join(testkit.Root(t), "examples/mpi4py/input"))); err != nil {
		t.Fatal(err)
	}
	image := testkit.NewLayer(t)
	image.Add(tar.Header{Typeflag: tar.TypeReg, Name: "greeting", Mode: 0o644}, []byte("an-image-of-mine\n"))
	image.Busybox("bin", "sh cat hostname ls")
	registry := testkit.Registry(t, "")
	archive := image.Archive("app:1", v1.Config{Env: []string{"PATH=/bin"}})
	must(t, exec.CommandContext(t.Context(), "cp", archive, filepath.Join(home, "app.tar")))
	as := ordinary(t)
	must(t, exec.CommandContext(t.Context(), "chown", "-R", fmt.Sprintf("%d:%d", as.Uid, as.Gid), home))

	var own []string // what the page does with an image of the reader's, but on a terminal
	for _, m := range regexp.MustCompile(`(?m)^    (bee run .*)docker\.io/you/app:1\.0 (.*)$`).FindAllSubmatch(page, -1) {
		if !bytes.Contains(m[1], []byte(" -it ")) {
			own = append(own, fmt.Sprintf("%s%s/app:1 %s", m[1], registry, m[2]))
		}
	}
	if len(own) < 2 {
		t.Errorf("the first page runs images by %q alone", own)
	}
	first, _, _ := strings.Cut(block("sites:"), "\n  - {name: rack")
	script := []string{
		"sh dist/install.sh --from dist",
		`PATH=$HOME/.local/bin:$PATH`,
		"bee doctor",
		"bee image import app.tar", // as `docker build` and `docker push` do elsewhere
		"bee image push app:1 " + registry + "/app:1", "bee image rm app:1",
		"bee run " + registry + "/app:1 cat /greeting",
		"mkdir data", strings.Join(own, "\n"),
		"mkdir new", "cp input/* new", `printf '#!/bin/sh\n#SBATCH -N 2\nsrun ./solver\n' > new/run.sbatch`,
		"(cd new; bee init; bee init --from run.sbatch -o converted.yaml; bee check job.yaml; bee init --sites -o sites.yaml; bee check sites.yaml)",
		"mkdir -p .config/bee", "cat > .config/bee/sites.yaml <<'end'\n" + first + "\nend",
		"mkdir pi", "cp -r input pi", "cd pi", "cat > job.yaml <<'end'\n" + block("name: pi") + "end",
		"bee check job.yaml", "bee plan job.yaml",
		"bee run -n 2 " + registry + "/app:1 hostname",
	}
	if testkit.Everything() {
		script = append(script, "bee run job.yaml", "cat pi.txt", "bee show pi")
	}
	script = append(script, "sh ../dist/install.sh --uninstall")
	begun := time.Now()
	c := exec.CommandContext(t.Context(), "sh", "-exc", strings.Join(script, "\n"))
	c.Dir = home
	c.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	if testkit.Everything() {
		c = onEmptyDebian(t, home, as, strings.Join(script, "\n"))
		begun = time.Now()
	}
	out, err := c.CombinedOutput()
	t.Logf("in %v:\n%s", time.Since(begun).Round(time.Second), out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("\nan-image-of-mine\n")) {
		t.Error("the output of the image is not shown")
	}
	if testkit.Everything() && !bytes.Contains(out, []byte("\npi = 3.14159")) {
		t.Error("the MPI run has not written its result")
	}
}

// onEmptyDebian makes a Debian 12 with nothing but what the first page names for `build:`, and
// returns a command that runs a script there, as a user in a directory of this machine.
func onEmptyDebian(t *testing.T, home string, as *syscall.Credential, script string) *exec.Cmd {
	t.Helper()
	who, err := user.LookupId(strconv.FormatUint(uint64(as.Uid), 10))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "bee-debian-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, exec.Command("rm", "-rf", "--one-file-system", dir)) })
	made := exec.CommandContext(t.Context(), "bash", "-euc", `
dir=$1 home=$2 user=$3 mirror=$(hack/mirror.sh)
chmod 755 "$dir"
valid=$(apt-config dump --no-empty --format '%f "%v";%n' Acquire::Check-Valid-Until)
mmdebstrap --quiet --variant=minbase ${valid:+--aptopt="$valid"} --include=mmdebstrap,uidmap bookworm "$dir/root.tar" "deb $mirror bookworm main"
mkdir "$dir/root"
tar -C "$dir/root" -xf "$dir/root.tar"
for f in passwd group subuid subgid; do grep "^$user:" /etc/$f >>"$dir/root/etc/$f"; done
cp /etc/resolv.conf "$dir/root/etc/"
cp -r /etc/apt/apt.conf.d "$dir/root/etc/apt/"
mkdir -p "$dir/root/old" "$dir/root$home"`, "-", dir, home, who.Username)
	made.Dir = testkit.Root(t)
	must(t, made)
	return exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "bash", "-euc", `
root=$1/root home=$2 user=$3
mount --bind "$root" "$root"
for d in proc sys dev; do mount --rbind "/$d" "$root/$d"; done
mount -t tmpfs tmpfs "$root/run"
mount --bind "$home" "$root$home"
cd "$root"; pivot_root . old; umount -l /old; cd "$home"
exec setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME="$home" PATH=/usr/local/bin:/usr/bin:/bin sh -exc "$4"`, "-", dir, home, who.Username, script)
}
