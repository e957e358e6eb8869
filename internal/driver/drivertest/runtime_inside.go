package drivertest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// insideTests are about what the processes in a container see and may do.
type insideTests struct{ suite RuntimeSuite }

func (in insideTests) signals(t *testing.T) {
	box, _ := in.suite.shared.start()
	p := sleeper(t, box)
	if err := p.Signal(t.Context(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != int(syscall.SIGUSR1) || exit.Code != 128+int(syscall.SIGUSR1) {
		t.Errorf("after USR1: %+v, %v", exit, err)
	}
	if err := p.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("signal to a process that has ended: %v", err)
	}
	// A signal reaches the whole group: the shell and what it waits for.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err = box.Exec(t.Context(), driver.Command{Args: []string{"sh", "-c", "trap 'echo got; exit 3' TERM; echo up; sleep 1000 & wait"}, Env: []string{"PATH=/bin"}, Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 3)
	if _, err := r.Read(piece); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(t.Context(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
		t.Errorf("after TERM: %+v, %v", exit, err)
	}
}

func (in insideTests) identity(t *testing.T) {
	box, c := in.suite.shared.start()
	if got, ids := want(t, box, "echo $(id -u) $(id -g)"), fmt.Sprint(os.Getuid(), os.Getgid()); got != ids {
		t.Errorf("ids inside are %s, want the caller's %s", got, ids)
	}
	want(t, box, "echo hello > /work/file && mkdir /work/dir && cat /a/deep/fixed/text")
	for _, name := range []string{"file", "dir"} {
		info, err := os.Stat(filepath.Join(c.Mounts[0].Source, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
}

// user is whom an image names: that one inside, and the caller outside.
func (in insideTests) user(t *testing.T) {
	if !in.suite.New(t).Info().MapsUsers {
		return
	}
	c := in.suite.spec(t)
	c.User = &core.Account{UID: 1234, GID: 1235, Name: "app", Home: "/home/app"}
	box := in.suite.start(t, c)
	if got := want(t, box, "echo $(id -u) $(id -g) $(id -un) $(id -gn)"); got != "1234 1235 app team" {
		t.Errorf("inside it is %s, want the image's 1234 1235 app team", got)
	}
	want(t, box, "cat /home/app/own && echo x > /home/app/new && echo x > /work/by-user && chmod 600 /work/by-user")
	info, err := os.Stat(filepath.Join(c.Mounts[0].Source, "by-user"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
		t.Errorf("its file belongs to %d:%d outside", st.Uid, st.Gid)
	}
	if got := want(t, box, "grep CapEff /proc/self/status | tr -d 'CapEf:[:space:]'"); strings.Trim(got, "0") != "" {
		t.Errorf("capabilities %s", got)
	}
}

func (in insideTests) root(t *testing.T) {
	c := in.suite.spec(t)
	c.Root = true
	start := in.suite.start
	if os.Getuid() != 0 {
		start = in.suite.startUnlessRefused
	}
	box := start(t, c)
	if box == nil {
		return
	}
	if got := want(t, box, "id -u; echo x > /work/by-root; echo y > /etc/new"); got != "0" {
		t.Errorf("uid %s inside", got)
	}
	info, err := os.Stat(filepath.Join(c.Mounts[0].Source, "by-root"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Getuid() {
		t.Errorf("root's file belongs to %d", st.Uid)
	}
}

func (in insideTests) mounts(t *testing.T) {
	c := in.suite.spec(t)
	box := in.suite.start(t, c)
	for _, script := range []string{"echo x > /a/deep/fixed/text", "echo x > /a/deep/fixed/new", "rm /a/deep/fixed/text", "chmod 777 /a/deep/fixed"} {
		if r := run(t, box, "", shell(script)); r.exit.Code == 0 {
			t.Errorf("%s: a read-only mount let it through", script)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(c.Mounts[1].Source, "text")); err != nil || string(raw) != "fixed\n" {
		t.Errorf("the source is now %q, %v", raw, err)
	}
	if in.suite.image.Tree != "" {
		if _, err := os.Stat(filepath.Join(in.suite.image.Tree, "work")); err == nil {
			t.Error("the image's tree was written to")
		}
	}
}

// apart has two containers of one image: what one writes is its own.
func (in insideTests) apart(t *testing.T) {
	box, _ := in.suite.shared.start()
	want(t, box, "echo x > /tmp/scratch && cat /tmp/scratch")
	other := in.suite.start(t, in.suite.spec(t))
	want(t, other, "test ! -e /tmp/scratch")
	want(t, box, "rm /tmp/scratch")
}

// paths gives relative ones, by links: who makes the container may stand elsewhere.
func (in insideTests) paths(t *testing.T) {
	if in.suite.OwnKernel { // its machine is given whole paths by its node
		return
	}
	c := in.suite.spec(t)
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, path := range []*string{&c.Image.Tree, &c.Mounts[0].Source, &c.Mounts[1].Source} {
		link := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Symlink(*path, link); err != nil {
			t.Fatal(err)
		}
		if *path, err = filepath.Rel(cwd, link); err != nil {
			t.Fatal(err)
		}
	}
	box := in.suite.start(t, c)
	want(t, box, "cat /a/deep/fixed/text && echo x > /work/file && test -f /etc/passwd")
}

func (in insideTests) scratch(t *testing.T) {
	if !in.suite.Scratch {
		return
	}
	for _, disk := range []bool{false, true} {
		c := in.suite.spec(t)
		c.DiskScratch = disk
		box := in.suite.start(t, c)
		want(t, box, "echo x > /etc/written && cat /etc/written")
		if got := holds(c.StateDir, "written"); got != disk {
			t.Errorf("on disk: %v, asked for: %v", got, disk)
		}
		if err := box.Stop(t.Context(), 2*time.Second); err != nil {
			t.Fatal(err)
		}
		if holds(c.StateDir, "written") {
			t.Error("what a container wrote outlives it")
		}
	}
}

// holds reports whether a file of a name lies somewhere in a directory.
func holds(dir, name string) bool {
	found := false
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error { //nolint:errcheck // what may not be read holds no file of ours
		found = found || d != nil && d.Name() == name
		return nil
	})
	return found
}

// limits of MPI's memory, files and stacks are what a site has set them to.
func (in insideTests) limits(t *testing.T) {
	if !in.suite.Inherits {
		return
	}
	box, _ := in.suite.shared.start()
	outside, err := exec.Command("cat", "/proc/self/limits").Output()
	if err != nil {
		t.Fatal(err)
	}
	Same(t, strings.TrimSpace(string(outside)), want(t, box, "cat /proc/self/limits"))
}

func (in insideTests) names(t *testing.T) {
	box, _ := in.suite.shared.start()
	hostname := "suite-host"
	if in.suite.SharedUTS {
		hostname, _ = os.Hostname()
	}
	if got := want(t, box, "hostname"); got != hostname {
		t.Errorf("hostname %q, want %q", got, hostname)
	}
	hosts := want(t, box, "cat /etc/hosts")
	for _, name := range []string{"other-host", "other-alias", "localhost"} {
		if !strings.Contains(hosts, name) {
			t.Errorf("%s is not in /etc/hosts:\n%s", name, hosts)
		}
	}
	if got := want(t, box, "cat /proc/1/cmdline | tr '\\000' ' '; cat /proc/self/net/dev | wc -l"); !strings.Contains(got, "bee") {
		t.Errorf("the first process is %q", got)
	}
	if in.suite.OwnKernel {
		return
	}
	net, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if got := want(t, box, "readlink /proc/self/ns/net"); got != net {
		t.Errorf("network %s is not the host's %s", got, net)
	}
	in.known(t, box)
}

// known wants the caller among the accounts inside, and the host's resolvers.
func (in insideTests) known(t *testing.T, box driver.Container) {
	if !in.suite.Strangers {
		ids := fmt.Sprintf(":%d:%d:", os.Getuid(), os.Getgid())
		if got := want(t, box, "cat /etc/passwd"); !strings.Contains(got, ids) {
			t.Errorf("no account has the ids %s:\n%s", ids, got)
		}
		if got := want(t, box, "cat /etc/group"); !strings.Contains(got+"\n", fmt.Sprintf(":%d:", os.Getgid())) {
			t.Errorf("no group has the id %d:\n%s", os.Getgid(), got)
		}
	}
	raw, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	inside := want(t, box, "cat /etc/resolv.conf")
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "nameserver") && !strings.Contains(inside+"\n", line) {
			t.Errorf("%q is not in /etc/resolv.conf:\n%s", line, inside)
		}
	}
}

// confined tries what gives an intruder power over the host.
func (in insideTests) confined(t *testing.T) {
	box, _ := in.suite.shared.start()
	if got := want(t, box, "grep NoNewPrivs /proc/self/status | tr -dc 0-9"); got != "1" {
		t.Errorf("NoNewPrivs is %s", got)
	}
	for script, refusal := range map[string]string{"timeout 5 nc -l -p 81": "ermission denied", "start-stop-daemon -S -c root -x /bin/true": "set groups"} {
		if in.suite.NamespaceRoot && os.Getuid() == 0 && strings.Contains(refusal, "groups") {
			continue // of its own namespace, which holds no other groups
		}
		if r := run(t, box, "", shell(script)); r.exit.Code == 0 || !strings.Contains(r.err, refusal) {
			t.Errorf("%s: ended with %d: %s", script, r.exit.Code, r.err)
		}
	}
	if r := run(t, box, "", shell(fmt.Sprintf("kill -0 %d", os.Getpid()))); r.exit.Code == 0 && !in.suite.OwnKernel {
		t.Error("a process outside gets a signal")
	}
	if in.suite.NamespaceRoot && os.Getuid() == 0 {
		if r := run(t, box, "", shell("mknod /work/null c 1 3 || mount -o remount,rw /a/deep/fixed || echo 1 > /proc/sys/kernel/sysrq")); r.exit.Code == 0 {
			t.Error("root inside has power outside")
		}
		return
	}
	if got := want(t, box, "grep CapEff /proc/self/status | tr -d 'CapEf:[:space:]'"); strings.Trim(got, "0") != "" {
		t.Errorf("capabilities %s", got)
	}
	for _, script := range []string{
		"chroot / /bin/true", "mknod /tmp/null c 1 3", "mknod /work/null c 1 3", "mount -t tmpfs tmpfs /tmp", "mount -o bind /etc /tmp", "mount -o remount,rw /a/deep/fixed",
		"umount /a/deep/fixed", "hostname intruder", "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness", "echo x > /proc/sysrq-trigger", "echo 0 > /sys/kernel/mm/ksm/run", "cat /proc/1/root/etc/shadow /dev/vda /dev/sda",
	} {
		if r := run(t, box, "", shell(script)); r.exit.Code == 0 {
			t.Errorf("%s: succeeded", script)
		}
	}
}

func (in insideTests) sharedMemory(t *testing.T) {
	box, _ := in.suite.shared.start()
	name := fmt.Sprintf("bee-suite-%d", os.Getpid())
	outside := filepath.Join("/dev/shm", name)
	defer os.Remove(outside)
	want(t, box, "echo shared > /dev/shm/"+name)
	if in.suite.OwnKernel {
		return
	}
	if raw, err := os.ReadFile(outside); err != nil || string(raw) != "shared\n" {
		t.Errorf("/dev/shm is not the host's: %q, %v", raw, err)
	}
}

func (in insideTests) orphans(t *testing.T) {
	box, _ := in.suite.shared.start()
	nap := fmt.Sprintf("sleep 0.1%d", os.Getpid()) // native programs see all processes of the host
	want(t, box, "for i in 1 2 3 4 5; do ("+nap+" &) ; done")
	first := "1"            // the process that inherits orphans
	if in.suite.SharedUTS { // and the host's processes
		first = strings.TrimSpace(want(t, box, "echo $PPID"))
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		states := want(t, box, "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z "+first+" ' || true")
		if states != "0" {
			return fmt.Errorf("%s zombies", states)
		}
		if got := want(t, box, "ps | grep -c '[s]"+nap[1:]+"' || true"); got != "0" {
			return fmt.Errorf("%s orphans run still", got)
		}
		return nil
	})
}

func (in insideTests) bigOutput(t *testing.T) {
	box, _ := in.suite.shared.start()
	size := 64 << 20
	if in.suite.OwnKernel && !testkit.Everything() {
		size = 8 << 20 // an emulated guest prints less than a MiB in a second
	}
	r := run(t, box, "", shell(fmt.Sprintf("yes 0123456789abcde | head -c %d", size)))
	if len(r.out) != size {
		t.Fatalf("%d bytes of %d", len(r.out), size)
	}
	whole := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	if sha256.Sum256([]byte(r.out)) != sha256.Sum256(whole) {
		t.Error("the output is not what was written")
	}
}

func (in insideTests) atOnce(t *testing.T) {
	n := in.suite.AtOnce
	if n == 0 {
		n = 4
	}
	rt := in.suite.New(t)
	var all sync.WaitGroup
	for i := range n {
		c := in.suite.spec(t)
		all.Go(func() {
			box, err := rt.Start(t.Context(), c)
			if err != nil {
				t.Errorf("container %d: %v", i, err)
				return
			}
			r, err := tryRun(t.Context(), box, "", shell(fmt.Sprintf("echo %d > /work/n; cat /work/n", i)))
			if err != nil || strings.TrimSpace(r.out) != fmt.Sprint(i) {
				t.Errorf("container %d: %+v, %v", i, r, err)
			}
			if err := box.Stop(t.Context(), 20*time.Second); err != nil {
				t.Errorf("container %d: %v", i, err)
			}
		})
	}
	all.Wait()
}
