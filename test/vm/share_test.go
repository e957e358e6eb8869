package vm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// uses tries what programs do with files of their hosts' directory.
const uses = `import fcntl, mmap, os, sys
def expect(what, got, want):
    if got != want: sys.exit("%s: %r, want %r" % (what, got, want))
expect("owner of an input", os.stat("in").st_uid, os.getuid())
f = open("mapped", "w+b")
f.truncate(mmap.PAGESIZE)
m = mmap.mmap(f.fileno(), mmap.PAGESIZE)
m[:5] = b"shared"[:5]
m.flush()
expect("written by a shared map", os.pread(f.fileno(), 5, 0), b"share")
d, block = os.open("direct", os.O_CREAT | os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, mmap.PAGESIZE)
block[:6] = b"direct"
expect("direct write", os.write(d, block), mmap.PAGESIZE)
os.lseek(d, 0, 0)
block[:6] = b"------"
expect("direct read", (os.readv(d, [block]), block[:6]), (mmap.PAGESIZE, b"direct"))
fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(f, fcntl.LOCK_UN) # 9p makes one kind of both
fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
if not os.fork():
    try: fcntl.flock(open("mapped"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: os._exit(0)
    os._exit(1)
expect("a lock that another one has", os.wait()[1], 0)
os.setxattr("mapped", "user.bee", b"x")
expect("attribute", os.getxattr("mapped", "user.bee"), b"x")
os.chown("mapped", os.getuid(), os.getgid())
os.chmod("mapped", 0o640)
os.symlink("mapped", "link"); os.link("mapped", "hard"); os.mkdir("dir"); os.rename("hard", "dir/moved")
expect("links", (os.readlink("link"), os.stat("dir/moved").st_nlink, os.stat("dir/moved").st_mode & 0o777), ("mapped", 2, 0o640))
g = os.open("gone", os.O_CREAT | os.O_RDWR)
os.unlink("gone")
os.write(g, b"still")
expect("an unlinked file that is open", os.pread(g, 5, 0), b"still")
`

// limits tries what the table of docs/reference/volumes.md lists, and prints the name of the
// error that each gets, or else yes.
const limits = `import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(r):
    if r < 0: raise OSError(ctypes.get_errno(), "")
def unlinked():
    f = os.open("l-gone", os.O_CREAT | os.O_RDWR)
    os.unlink("l-gone")
    os.ftruncate(f, 10)
def fifo(): os.mkfifo("l-fifo")
def unix(): socket.socket(socket.AF_UNIX).bind("l-socket")
def fallocate(): call(libc.fallocate(os.open("l-space", os.O_CREAT | os.O_RDWR), 0, ctypes.c_long(0), ctypes.c_long(1 << 20)))
def exchange():
    for n in "l-a", "l-b": os.close(os.open(n, os.O_CREAT | os.O_RDWR))
    call(libc.syscall(316 if os.uname().machine == "x86_64" else 276, -100, b"l-a", -100, b"l-b", 2))
def nanoseconds():
    os.close(os.open("l-time", os.O_CREAT | os.O_RDWR))
    os.utime("l-time", ns=(10**18 + 123456789,) * 2)
    got = os.stat("l-time").st_mtime_ns
    return "yes" if got == 10**18 + 123456789 else "whole seconds only" if got == 10**18 else got
def nameless(): os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
for what, tries in ("removed", [unlinked]), ("FIFO", [fifo, unix]), ("fallocate", [fallocate]), ("RENAME_EXCHANGE", [exchange]), ("nanosecond", [nanoseconds]), ("O_TMPFILE", [nameless]):
    for try_ in tries:
        try: got = try_() or "yes"
        except OSError as e: got = errno.errorcode[e.errno].replace("ENOTSUP", "EOPNOTSUPP")
        print("%s: %s" % (what, got))
`

// documented compares what limits printed with a column of the table.
func documented(t *testing.T, column, printed string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs/reference/volumes.md"))
	if err != nil {
		t.Fatal(err)
	}
	var head []string
	at, rows := -1, map[string]string{}
	for line := range strings.Lines(string(raw)) {
		cells := strings.Split(line, "|")
		if strings.HasPrefix(line, "| a program |") {
			for i, c := range cells {
				if strings.TrimSpace(c) == column {
					head, at = cells, i
				}
			}
		} else if at > 0 && len(cells) == len(head) {
			rows[cells[1]] = strings.TrimSpace(cells[at])
		}
	}
	if at < 0 || strings.Count(printed, "\n") != 7 {
		t.Fatalf("the page has no column %q, or the guest printed %q", column, printed)
	}
	for line := range strings.Lines(printed) {
		what, got, _ := strings.Cut(strings.TrimSpace(line), ": ")
		found := false
		for row, says := range rows {
			if strings.Contains(row, what) {
				if found = true; says != got {
					t.Errorf("%s: got %s, the page says %s", what, got, says)
				}
			}
		}
		if !found {
			t.Errorf("the page has no row about %s", what)
		}
	}
}

// ball has two guests write to one open file in turn: each waits for what the
// other one has written. Its size changes as well, or virtiofs on hosts whose
// times of change are coarse would miss some.
const ball = `import os, sys, time
me, fd = int(sys.argv[1]), os.open("ball", os.O_RDWR)
for turn in range(1, 301):
    value = b"%08d" % turn
    if turn % 2 == me:
        os.pwrite(fd, value, 0)
        os.ftruncate(fd, 8 + turn)
        continue
    end = time.time() + 60
    while os.pread(fd, 8, 0) != value:
        if time.time() > end: sys.exit("guest %d does not see turn %d" % (me, turn))
`

// TestHostsDirectoryInGuests: by both ways, programs find what they are used to,
// guests see at once what others wrote, and all of it belongs to the user.
func TestHostsDirectoryInGuests(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	for _, route := range []string{"9p", "virtiofs"} {
		t.Run(route, func(t *testing.T) {
			if route == "virtiofs" {
				testkit.Long(t, "9p, and TestHostsWithoutQEMU of internal/vm with the bundled virtiofsd")
			}
			b := testkit.NewBee(t)
			b.File("in/in", "\n")
			b.File("in/uses.py", uses)
			b.File("in/limits.py", limits)
			b.File("in/ball.py", ball)
			b.File("in/ball", strings.Repeat("0", 8))
			many := "" // inputs outside the volume: more than a machine has room for devices
			for i := range 24 {
				many += fmt.Sprintf(", {from: in/ball, to: /inputs/%d/ball}", i)
			}
			sites := b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n")
			job := b.File("job.yaml", `name: share
`+build+`
vm: {cpus: 1, memory: 1G, share: `+route+`}
nodes: 2
volume: {path: /data, kind: virtio}
workdir: /data
inputs: [{from: in, to: /data}, {from: in, to: /inputs/dir}`+many+`]
run: |
  set -e
  cmp /inputs/23/ball /inputs/dir/ball
  python3 uses.py
  (mkdir tried; cd tried; python3 ../limits.py) > limits; rm -r tried
  /.bee/rsh lab-1 'cd /data; exec python3 ball.py 1' & python3 ball.py 0; wait $!
  grep ' /data ' /proc/mounts > kind; touch up
  until [ -e from-host ]; do sleep 0.1; done
  cat from-host > answer; echo of-the-guest >> answer
  until [ -e made-by-root ]; do sleep 0.1; done
outputs: [{from: "/data/*", to: results}]
`)
			id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
			testkit.Eventually(t, 10*time.Minute, func() error {
				if r := b.Try("vm", "shell", id, "--", "sh", "-c", "until [ -e /mnt/bee0/up ]; do sleep 1; done"); r.Code != 0 {
					var v testkit.RunView
					if b.JSON(&v, "show", "--json", id); v.State == "failed" {
						t.Fatalf("%s\n%s", b.Try("show", id).Stdout, b.Try("logs", id).Stderr)
					}
					return b.Explained(id, "not up: "+r.Stderr)
				}
				return nil
			})
			volume := volumeOnHost(t, b, "up")
			if err := os.WriteFile(filepath.Join(volume, "from-host"), []byte("of-the-host\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 10*time.Second, func() error {
				got, err := os.ReadFile(filepath.Join(volume, "answer"))
				if err == nil && string(got) != "of-the-host\nof-the-guest\n" {
					err = fmt.Errorf("while guests run, the host reads %q", got)
				}
				return err
			})
			b.Must("vm", "shell", id, "--", "sh", "-c", "echo root > /mnt/bee0/made-by-root")
			if v := b.Await(id, 5*time.Minute); v.State != "succeeded" {
				t.Fatalf("%s\n%s", b.Try("show", id).Stdout, b.Try("logs", id).Stderr)
			}
			if kind := b.Read("results/kind"); !strings.Contains(kind, " /data "+route+" ") {
				t.Errorf("the volume is mounted as %q", kind)
			}
			documented(t, route, b.Read("results/limits"))
			if got := b.Read("results/mapped"); !strings.HasPrefix(got, "share") || b.Read("results/made-by-root") != "root\n" {
				t.Errorf("outside, what was written is %q", got[:min(len(got), 20)])
			}
			info, err := os.Stat(filepath.Join(b.Work, "results/mapped"))
			if err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("outside: %v, %v", info, err)
			}
		})
	}
}

// volumeOnHost is the directory of a bee's hosts in which a job has made a file.
func volumeOnHost(t *testing.T, b *testkit.Bee, name string) (dir string) {
	t.Helper()
	filepath.WalkDir(filepath.Join(b.Dir, "scratch"), func(path string, d fs.DirEntry, err error) error { //nolint:errcheck // what is not found is reported
		if err == nil && !d.IsDir() && d.Name() == name {
			dir = filepath.Dir(path)
			return fs.SkipAll
		}
		return nil
	})
	if dir == "" {
		t.Fatalf("no host has %s", name)
	}
	return dir
}
