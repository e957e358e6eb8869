package drivertest

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/hostdir"
	"github.com/hanwen/go-fuse/v2/fs"
	"golang.org/x/sys/unix"
)

// siteDir makes a directory of the site with a file in it, outside of all that is a run's.
func siteDir(t *testing.T, text string) string {
	t.Helper()
	parent, err := os.MkdirTemp("/tmp", "bee-site-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(parent); err != nil {
			t.Errorf("a file was left that its user cannot remove: %v", err)
		}
	})
	dir := filepath.Join(parent, "data, all") // with what separates options
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// opened is a mount of a directory of the site.
func opened(t *testing.T, dir, target string, write bool) driver.Mount {
	t.Helper()
	f, err := hostdir.Open(t.Context(), dir, write)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return driver.Mount{Source: dir, Target: target, ReadOnly: !write, Dir: f}
}

// manyMounts is more than what has a device of its own in a guest.
const manyMounts = 36

// directoryTests are about directories of a site that are mounted in containers.
type directoryTests struct{ suite RuntimeSuite }

// mounted: read-only is read-only, links stay in the container's view, one below
// the volume is there, and one that goes away during the run harms nothing.
func (d directoryTests) mounted(t *testing.T) {
	c := d.suite.spec(t)
	fixed, results, below := siteDir(t, "fixed"), siteDir(t, "results"), siteDir(t, "below")
	outside, unchanged := hostDir(t)
	for name, to := range map[string]string{"out": outside, "etc": "/etc/passwd", "up": "../../../../../../../.." + outside, "self": "."} {
		if err := os.Symlink(to, filepath.Join(fixed, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(c.Mounts[0].Source, "deep", "data"), 0o755); err != nil { // as nodes do
		t.Fatal(err)
	}
	c.Mounts = append(c.Mounts, opened(t, fixed, "/site/fixed", false), opened(t, results, "/results", true), opened(t, below, "/work/deep/data", false))
	many := siteDir(t, "many")
	for i := range manyMounts {
		c.Mounts = append(c.Mounts, opened(t, many, fmt.Sprintf("/many/%d", i), false))
	}
	box := d.suite.start(t, c)
	want(t, box, fmt.Sprintf("n=$(cat /many/*/text | grep -c many); [ $n = %d ] || { echo $n >&2; exit 1; }", manyMounts))
	for path, text := range map[string]string{"/site/fixed/text": "fixed", "/site/fixed/self/text": "fixed", "/results/text": "results", "/work/deep/data/text": "below"} {
		if got := want(t, box, "cat "+path); got != text {
			t.Errorf("%s has %q", path, got)
		}
	}
	want(t, box, "cmp /site/fixed/etc /etc/passwd && ls / > /dev/null")
	for _, script := range []string{
		"ls /site/fixed/out/", "ls /site/fixed/up/", "echo x > /site/fixed/out/passwd",
		"echo x > /site/fixed/new", "echo x > /site/fixed/text", "rm /site/fixed/text", "chmod 777 /site/fixed", "mkdir /site/fixed/d", "ln -s x /site/fixed/l",
		"touch /site/fixed/text", "mv /site/fixed/text /site/fixed/moved", "echo x > /work/deep/data/new", "mount -o remount,rw /site/fixed && echo x > /site/fixed/new",
	} {
		if r := run(t, box, "", shell(script)); r.exit.Code == 0 {
			t.Errorf("%s: succeeded", script)
		}
	}
	want(t, box, "echo new > /results/new && mkdir /results/dir && mv /results/text /results/dir/text && echo x > /work/deep/beside")
	if raw, err := os.ReadFile(filepath.Join(results, "dir", "text")); err != nil || string(raw) != "results\n" {
		t.Errorf("outside there is %q, %v", raw, err)
	}
	if left, err := os.ReadDir(fixed); err != nil || len(left) != 5 {
		t.Errorf("what is read-only has %v now, %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(c.Mounts[0].Source, "deep", "data")); err != nil || len(left) != 0 {
		t.Errorf("the volume has %v in place of the mount, %v", left, err)
	}
	unchanged("after a job with links to it")
	gone := fixed + ".gone"
	if err := os.Rename(fixed, gone); err != nil {
		t.Fatal(err)
	}
	if got := want(t, box, "cat /site/fixed/text"); got != "fixed" {
		t.Errorf("after it was renamed: %q", got)
	}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	if r := run(t, box, "", shell("cat /site/fixed/text || exit 7")); r.exit.Code != 7 {
		t.Errorf("after it was removed: %+v", r)
	}
	want(t, box, "echo on > /work/on && cat /work/deep/data/text")
}

// owner: what any user inside writes is the caller's.
func (d directoryTests) owner(t *testing.T) {
	account := &core.Account{UID: 1234, GID: 1235, Name: "app", Home: "/home/app"}
	for _, who := range []struct {
		name string
		root bool
		user *core.Account
	}{{"caller", false, nil}, {"root", true, nil}, {"image's", false, account}} {
		if who.user != nil && !d.suite.New(t).Info().MapsUsers {
			continue
		}
		c, dir := d.suite.spec(t), siteDir(t, "text")
		c.Root, c.User = who.root, who.user
		c.Mounts = append(c.Mounts, opened(t, dir, "/results", true))
		start := d.suite.start
		if who.root {
			start = d.suite.startUnlessRefused
		}
		box := start(t, c)
		if box == nil {
			continue
		}
		want(t, box, "echo x > /results/file && chmod 600 /results/file")
		info, err := os.Stat(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
			t.Errorf("%s: the file belongs to %d:%d outside", who.name, st.Uid, st.Gid)
		}
		if err := box.Stop(t.Context(), 2*time.Second); err != nil {
			t.Error(err)
		}
	}
}

// replaced has another directory, or a link, take the place of one that the
// node has opened, before the container starts. No job sees it.
func (d directoryTests) replaced(t *testing.T) {
	outside, unchanged := hostDir(t)
	for name, replace := range map[string]func(dir string) error{
		"a link":            func(dir string) error { return os.Symlink(outside, dir) },
		"another directory": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"nothing":           func(string) error { return nil },
	} {
		c, dir := d.suite.spec(t), siteDir(t, "ours")
		c.Mounts = append(c.Mounts, opened(t, dir, "/data", true))
		if err := os.Rename(dir, dir+".ours"); err != nil {
			t.Fatal(err)
		}
		if err := replace(dir); err != nil {
			t.Fatal(err)
		}
		box, err := d.suite.New(t).Start(t.Context(), c)
		if err != nil {
			if !core.IsKind(err, core.Unsupported) && !core.IsKind(err, core.NotFound) {
				t.Errorf("%s: refused by %v, kind %v", name, err, core.KindOf(err))
			}
			t.Logf("%s: refused: %v", name, err)
			continue
		}
		if got := want(t, box, "cat /data/text; echo x > /data/passwd"); got != "ours" {
			t.Errorf("%s: the job has %q", name, got)
		}
		if err := box.Stop(t.Context(), 2*time.Second); err != nil {
			t.Error(err)
		}
	}
	unchanged("after mounts whose directories were replaced")
}

// rootMayNotRead: a directory that the host's root may not look into, as on NFS
// with root_squash, is there for the user's containers. A runtime whose daemon is root may
// refuse it. A file system in user space stands for NFS: its kernel side answers nobody but
// the user who mounted it.
func (d directoryTests) rootMayNotRead(t *testing.T) {
	if os.Getuid() == 0 {
		return // it would be a user's directory as any other
	}
	c, dir, at := d.suite.spec(t), siteDir(t, "text"), t.TempDir()
	root, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	server, err := fs.Mount(at, root, &fs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	c.Mounts = append(c.Mounts, opened(t, at, "/data", true))
	box := d.suite.startUnlessRefused(t, c)
	if box == nil {
		return
	}
	if got := want(t, box, "cat /data/text; echo new > /data/new"); got != "text" {
		t.Errorf("the job has %q", got)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "new")); err != nil || string(raw) != "new\n" {
		t.Errorf("outside there is %q, %v", raw, err)
	}
}

// below: what is mounted below a directory on the host is there, and as
// read-only; a runtime that cannot do so refuses.
func (d directoryTests) below(t *testing.T) {
	if os.Getuid() != 0 {
		return // only root mounts anything on the host
	}
	c, dir := d.suite.spec(t), siteDir(t, "text")
	sub := filepath.Join(dir, "sub mount")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", sub, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("root of this namespace mounts nothing: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(sub, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(sub, "text"), []byte("sub\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Mounts = append(c.Mounts, opened(t, dir, "/data", false))
	box := d.suite.startUnlessRefused(t, c)
	if box == nil {
		return
	}
	if got := want(t, box, "cat '/data/sub mount/text'"); got != "sub" {
		t.Errorf("below it there is %q", got)
	}
	if r := run(t, box, "", shell("echo x > '/data/sub mount/new'")); r.exit.Code == 0 {
		t.Error("what is mounted below it can be written to")
	}
}
