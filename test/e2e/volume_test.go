package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/hanwen/go-fuse/v2/posixtest"
)

// mounted is a bee with a volume: far is its remote, near where it is mounted.
func mounted(t *testing.T, flags ...string) (b *testkit.Bee, far, near string) {
	t.Helper()
	b, near = mountable(t)
	far = filepath.Join(b.Work, "far")
	if err := os.Mkdir(far, 0o755); err != nil {
		t.Fatal(err)
	}
	b.Must(append(append([]string{"volume", "mount"}, flags...), far, near)...)
	return b, far, near
}

// mountable is a bee with an empty directory at which it can mount a volume.
func mountable(t *testing.T) (b *testkit.Bee, near string) {
	t.Helper()
	testkit.RequireFUSE(t)
	b = testkit.NewBee(t)
	near = filepath.Join(b.Work, "near")
	if err := os.Mkdir(near, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endVolumes(b, near) })
	return b, near
}

// endVolumes leaves no process and no mount of a bee, after a failure too.
func endVolumes(b *testkit.Bee, near string) {
	for _, p := range processes(b, "volume-") {
		testkit.Kill(p)
	}
	if os.Geteuid() == 0 {
		syscall.Unmount(near, syscall.MNT_DETACH)
	} else {
		exec.Command("fusermount3", "-uzq", near).Run() //nolint:errcheck // it is unmounted, most times
	}
}

func processes(b *testkit.Bee, which string) []int {
	var pids []int
	for _, p := range b.Processes() {
		var pid int
		if _, err := fmt.Sscan(p, &pid); err == nil && strings.Contains(p, " "+which) {
			pids = append(pids, pid)
		}
	}
	return pids
}

type volumeStatus struct {
	ID, Remote, Mount, Waits string
	Place                    string
	Undrained, Published     int64
	Changes                  int
	Drained, Running         bool
	Conflicts                []struct{ Path, As string }
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		if rel == ".bee" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			text += " -> " + to
			got[rel] = text
			return err
		case !d.IsDir():
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += " " + string(data)
		}
		got[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestVolume mounts a directory through a burst buffer, as the how-to shows: what programs
// do there arrives as plain files, and after unmounting nothing is left.
func TestVolume(t *testing.T) {
	testkit.AsRootToo(t)
	b, near := mountable(t)
	far := filepath.Join(b.Work, "far")
	if err := os.MkdirAll(filepath.Join(far, "kept"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(far, "kept/f"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	b.Must("volume", "mount", "--rate", "10gbit", "--disk", "256M", "--protect", "--local", "scratch/**", far, near)
	var fetched struct{ Files, Bytes int }
	if b.JSON(&fetched, "volume", "prefetch", "--json", near, "kept/*"); fetched.Files != 1 || fetched.Bytes != 4 {
		t.Errorf("prefetched: %+v", fetched)
	}
	script := exec.Command("sh", "-ec", `
		! sh -c 'echo more >> kept/f' 2> /dev/null && ! rm -f kept/f 2> /dev/null && echo new > kept/new
		mkdir scratch && echo local > scratch/f && mv scratch/f moved && echo local > scratch/g
		echo before > there
		cat there
		mkdir -p a/b && echo one > a/b/f && mv a/b/f a/g && ln -s g a/link
		head -c 3000000 /dev/zero | tr '\0' x > big && echo more >> big
		chmod 751 big && touch -d @1000000000 a/g
		rmdir a/b && echo gone > gone && rm gone
		echo second > there
		echo new > tmp && mv tmp there
		truncate -s 5 a/g && truncate -s 1000000 hole
		for i in $(seq 50); do echo $i > many$i; done
		! ln a/g hard 2> /dev/null && ! mkdir .bee 2> /dev/null`)
	script.Dir = near
	if out, err := script.CombinedOutput(); err != nil || string(out) != "before\n" {
		t.Fatalf("%s%v", out, err)
	}
	here := contents(t, near)
	if here["kept/f"] != "-rw-r--r-- kept" || here["scratch/g"] == "" {
		t.Errorf("users see %v", here)
	}
	delete(here, "scratch")
	delete(here, "scratch/g")
	b.Must("volume", "drain", near)
	if got := contents(t, far); !mapsEqual(got, here) || len(got) < 50 {
		t.Errorf("the remote has %d names, and users see %d", len(got), len(here))
	}
	if info, err := os.Stat(filepath.Join(far, "big")); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("big: %v, %v", info, err)
	}
	var checked struct {
		Files, Undrained, Unknown int
		Wrong                     []struct{ Path, Finding string }
	}
	b.JSON(&checked, "volume", "check", "--json", near)
	if checked.Files < 50 || checked.Undrained+len(checked.Wrong) > 0 || checked.Unknown != 1 {
		t.Errorf("check: %+v", checked)
	}
	damaged := filepath.Join(far, "many7")
	info, err := os.Stat(damaged)
	if err == nil {
		err = errors.Join(os.WriteFile(damaged, []byte("8\n"), 0o644), os.Chtimes(damaged, time.Time{}, info.ModTime()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Try("volume", "check", far); r.Code != 200 || r.Stdout != "damaged  many7\n" {
		t.Errorf("check of damage: %+v", r)
	}
	if err := errors.Join(os.WriteFile(damaged, []byte("7\n"), 0o644), os.Chtimes(damaged, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
	var s volumeStatus
	b.JSON(&s, "volume", "status", "--json", near)
	if !s.Drained || !s.Running || s.Mount != near || s.Remote != far || s.Published < 3_000_000 {
		t.Errorf("status: %+v", s)
	}
	if got := b.Must("volume", "status"); !strings.Contains(got, near) {
		t.Errorf("status: %s", got)
	}
	other := filepath.Join(b.Work, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{far, other}, {other, near}, {far, far}, {other, filepath.Join(far, "a")}, {filepath.Join(far, "none"), other}, {"--local", "a*", other, other}, {"--credentials", "send", "s3://b/p", other}, {"--disk", "1M", other, other}} {
		if r := b.Try(append([]string{"volume", "mount"}, args...)...); r.Code == 0 || r.Stderr == "" {
			t.Errorf("mount %v: %+v", args, r)
		}
	}
	drainBeside(t, b, near)
	used, err := os.Open(filepath.Join(near, "there"))
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Try("volume", "umount", near); r.Code != 203 {
		t.Errorf("unmounted while it is used: %+v", r)
	}
	used.Close()
	b.Must("volume", "umount", near)
	if got := contents(t, far); !mapsEqual(got, here) {
		t.Error("unmounting has changed the remote")
	}
	if _, err := os.Lstat(filepath.Join(far, ".bee")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left on the remote: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(b.Dir, "*", "volumes", "*")); err != nil || len(left) > 0 {
		t.Errorf("left on this host: %v", left)
	}
	b.CheckNothingLeft(20 * time.Second)
	if r := b.Try("volume", "status", near); r.Code != 202 {
		t.Errorf("status of what is gone: %+v", r)
	}
}

// drainBeside drains a volume while a program writes to an open file all the time.
func drainBeside(t *testing.T, b *testkit.Bee, near string) {
	t.Helper()
	f, err := os.Create(filepath.Join(near, "log"))
	if err != nil {
		t.Fatal(err)
	}
	stop, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		every := time.NewTicker(time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-stop:
				failed <- f.Close()
				return
			case <-every.C:
			}
			if _, err := f.WriteString("line\n"); err != nil {
				failed <- err
				return
			}
		}
	}()
	b.Must("volume", "drain", near)
	close(stop)
	if err := errors.Join(<-failed, os.Remove(f.Name())); err != nil {
		t.Error(err)
	}
}

func mapsEqual(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// TestVolumeKilled kills the I/O process again and again while a program writes, and then
// both processes: the program only waits, and everything whose close has returned arrives.
func TestVolumeKilled(t *testing.T) {
	testkit.AsRootToo(t)
	b, far, near := mounted(t, "--rate", "8mbit")
	kills, perKill := 6, int64(12)
	if testkit.Everything() {
		kills = 200
	}
	content := func(i int64) []byte { return bytes.Repeat(fmt.Appendf(nil, "file %d\n", i), 2000) }
	var written, stop atomic.Int64
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := int64(0); stop.Load() == 0; i++ {
			name := filepath.Join(near, fmt.Sprint("part", i))
			err := os.WriteFile(name, content(i), 0o600)
			if err == nil && i%3 == 0 {
				err = os.Rename(name, filepath.Join(near, fmt.Sprint("done", i)))
			}
			if err != nil {
				failed <- err
				return
			}
			written.Store(i + 1)
		}
	}()
	for range kills {
		goal := written.Load() + perKill
		testkit.Eventually(t, 30*time.Second, func() error {
			if written.Load() < goal {
				select {
				case err := <-failed:
					t.Fatalf("the program got %v", err)
				default:
				}
				return fmt.Errorf("%d of %d files are written", written.Load(), goal)
			}
			return nil
		})
		for _, pid := range processes(b, "volume-io ") {
			testkit.Kill(pid)
		}
	}
	stop.Store(1)
	if err := <-failed; err != nil {
		t.Fatalf("the program got %v", err)
	}
	large := bytes.Repeat([]byte("large"), 800_000) // more than is drained before the kill
	if err := os.WriteFile(filepath.Join(near, "large"), large, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, which := range []string{"volume-client ", "volume-io "} {
		for _, pid := range processes(b, which) {
			testkit.Kill(pid)
		}
	}
	var s volumeStatus
	b.JSON(&s, "volume", "status", "--json", far)
	if s.Drained || s.Running || s.Undrained == 0 {
		t.Fatalf("nothing was undrained when it was killed: %+v", s)
	}
	if _, err := os.ReadDir(near); !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("the client was killed, and its mount answers %v", err)
	}
	// A buffer whose disk is not mounted is not an empty one.
	buffers, err := filepath.Glob(filepath.Join(b.Dir, "*", "volumes", "*", "buffer"))
	if err != nil || len(buffers) != 1 {
		t.Fatalf("buffers: %v, %v", buffers, err)
	}
	if err := os.Rename(buffers[0], buffers[0]+".away"); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("volume", "umount", near); r.Code == 0 {
		t.Errorf("unmounted without its buffer: %+v", r)
	}
	var missing volumeStatus
	b.JSON(&missing, "volume", "status", "--json", far)
	if missing.Drained || missing.Waits == "" {
		t.Errorf("its buffer is missing: %+v", missing)
	}
	if err := os.Rename(buffers[0]+".away", buffers[0]); err != nil {
		t.Fatal(err)
	}
	b.Must("volume", "umount", near)
	for i := range written.Load() {
		name := fmt.Sprint("part", i)
		if i%3 == 0 {
			name = fmt.Sprint("done", i)
		}
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || !bytes.Equal(got, content(i)) {
			t.Errorf("%s has %d bytes of %d, %v", name, len(got), len(content(i)), err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(far, "large")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("the large file has %d bytes, %v", len(got), err)
	}
	if got := contents(t, far); len(got) != int(written.Load())+1 {
		t.Errorf("%d files of %d", len(got), written.Load())
	}
	b.CheckNothingLeft(20 * time.Second)
}

// TestVolumeLeft unmounts without waiting: draining continues in the background. A remote
// that another volume uses is refused meanwhile. The I/O process is killed, and another
// installation drains the buffer from its disk.
func TestVolumeLeft(t *testing.T) {
	b, far, near := mounted(t, "--rate", "4mbit")
	for i := range 4 {
		if err := os.WriteFile(filepath.Join(near, fmt.Sprint(i)), bytes.Repeat([]byte("x"), 1_200_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.Try("volume", "umount", "--no-wait", near); r.Code != 0 || !strings.Contains(r.Stderr, "undrained") {
		t.Errorf("umount: %+v", r)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if len(contents(t, far)) == 0 {
			return errors.New("nothing is drained in the background")
		}
		return nil
	})
	other := testkit.NewBee(t)
	if err := os.Mkdir(filepath.Join(other.Work, "near"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endVolumes(other, filepath.Join(other.Work, "near")) })
	if r := other.Try("volume", "mount", far, "near"); r.Code != 203 || !strings.Contains(r.Stderr, ".bee/volume.json") {
		t.Errorf("a second volume: %+v", r)
	}
	if left, err := filepath.Glob(filepath.Join(other.Dir, "*", "volumes", "*")); err != nil || len(left) > 0 {
		t.Errorf("a refused mount has left %v, %v", left, err)
	}
	var list []volumeStatus
	b.JSON(&list, "volume", "ls", "--json")
	if len(list) != 1 || !list[0].Running || list[0].Drained {
		t.Fatalf("ls: %+v", list)
	}
	if r := b.Try("volume", "forget", far); r.Code != 203 {
		t.Errorf("a volume with its buffer is forgotten: %+v", r)
	}
	if r := other.Try("volume", "recover", list[0].Place); r.Code != 203 {
		t.Errorf("recovered while it is drained: %+v", r)
	}
	for _, pid := range processes(b, "volume-io ") {
		testkit.Kill(pid)
	}
	if got := b.Must("volume", "ls"); !strings.Contains(got, list[0].Place) || !strings.Contains(got, "dead") {
		t.Errorf("ls: %s", got)
	}
	rescued := filepath.Join(other.Work, "rescued")
	if err := os.Rename(list[0].Place, rescued); err != nil {
		t.Fatal(err)
	}
	if got := b.Must("volume", "ls"); !strings.Contains(got, "missing") {
		t.Errorf("ls: %s", got)
	}
	other.Must("volume", "recover", "rescued")
	b.Must("volume", "forget", far)
	if got := b.Must("volume", "ls", "--all"); got != "" {
		t.Errorf("ls of a volume that was forgotten: %s", got)
	}
	if got := contents(t, far); len(got) != 4 {
		t.Errorf("the remote has %d files", len(got))
	}
	if left, err := filepath.Glob(filepath.Join(other.Dir, "*", "volumes", "*")); err != nil || len(left) > 0 {
		t.Errorf("a recovered volume has left %v, %v", left, err)
	}
	if _, err := os.Lstat(rescued); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the recovered buffer: %v", err)
	}
	for _, of := range []*testkit.Bee{b, other} {
		of.CheckNothingLeft(time.Minute)
	}
}

// TestVolumeSemantics runs go-fuse's tests of POSIX file systems in a volume.
func TestVolumeSemantics(t *testing.T) {
	_, _, near := mounted(t)
	skipped := map[string]string{
		"Link":                "no hard links",
		"LinkUnlinkRename":    "no hard links",
		"FcntlFlockLocksFile": "expects two locks of one process to conflict, which POSIX rules out",
		"XAttr":               "no extended attributes",
		"XAttrLarge":          "no extended attributes",
		"LseekHoleSeeksToEOF": "holes are not reported",
		"LseekEnxioCheck":     "holes are not reported",
	}
	names := []string{}
	for name := range posixtest.All {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			if why := skipped[name]; why != "" {
				t.Skip(why)
			}
			if name == "OpenSymlinkRace" && !testkit.Everything() {
				t.Skip("it takes seconds")
			}
			dir := filepath.Join(near, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			posixtest.All[name](t, dir)
		})
	}
}

// TestVolumeBucket mounts a prefix of a bucket. The I/O process is killed when the bucket has
// carried out a write and has not yet answered, and the bucket is away for a while: programs
// notice nothing, and each file arrives once.
func TestVolumeBucket(t *testing.T) {
	testkit.AsRootToo(t)
	server := s3server.StartFound(t)
	b, near := mountable(t)
	var kill sync.Map // of keys: whether the process is killed before the answer
	var away atomic.Bool
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		key := path.Base(r.URL.Path)
		_, last := r.URL.Query()["partNumber"]
		if _, is := kill.Load(key); is && (r.Method == http.MethodPut && !last || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")) {
			kill.Delete(key)
			s3server.Forward(r, forward)
			for _, pid := range processes(b, "volume-io ") {
				testkit.Kill(pid)
			}
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})
	testkit.Setenv(t, server.EnvAt(proxy))
	far := "s3://" + server.Bucket + "/run7"
	b.Must("volume", "mount", far, near)
	large := bytes.Repeat([]byte("large"), 2_000_000)
	for name, data := range map[string][]byte{"small": []byte("small"), "large": large} {
		kill.Store(name, true)
		if err := os.WriteFile(filepath.Join(near, name), data, 0o640); err != nil {
			t.Fatal(err)
		}
		b.Must("volume", "drain", near)
		if _, is := kill.Load(name); is {
			t.Errorf("nothing was killed for %s", name)
		}
	}
	away.Store(true)
	script := exec.Command("sh", "-ec", `echo new > new; mkdir dir && echo inside > dir/file && ln -s file dir/link`)
	script.Dir = near
	done := make(chan error, 1)
	go func() { done <- script.Run() }()
	var s volumeStatus
	testkit.Eventually(t, 30*time.Second, func() error {
		b.JSON(&s, "volume", "status", "--json", near)
		select {
		case err := <-done:
			done <- err
			if s.Waits != "" && !s.Drained {
				return nil
			}
		default:
			return nil // a new name waits, as others may have it
		}
		return fmt.Errorf("%+v", s)
	})
	away.Store(false)
	if err := <-done; err != nil {
		t.Error(err)
	}
	here := contents(t, near)
	b.Must("volume", "drain", near)
	b.JSON(&s, "volume", "status", "--json", far)
	if !s.Drained || s.Remote != far || len(s.Conflicts) > 0 {
		t.Errorf("%+v", s)
	}
	got := contents(t, filepath.Join(server.Dir, "run7"))
	for name, text := range map[string]string{"small": "small", "large": string(large), "new": "new\n", "dir/file": "inside\n"} {
		if !strings.HasSuffix(got[name], " "+text) || !strings.HasSuffix(here[name], " "+text) {
			t.Errorf("%s has %d bytes in the bucket, and %d here", name, len(got[name]), len(here[name]))
		}
	}
	other := testkit.NewBee(t)
	if err := os.Mkdir(filepath.Join(other.Work, "near"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := other.Try("volume", "mount", far, "near"); r.Code != 203 || !strings.Contains(r.Stderr, far+"/.bee/volume.json") {
		t.Errorf("a second volume: %+v", r)
	}
	b.Must("volume", "umount", near)
	if _, err := os.Lstat(filepath.Join(server.Dir, "run7", ".bee")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left in the bucket: %v", err)
	}
	b.CheckNothingLeft(20 * time.Second)
	b.Must("volume", "mount", far, near)
	if again := contents(t, near); !mapsEqual(again, here) {
		t.Errorf("another volume sees %d names, and the first %d", len(again), len(here))
	}
	b.Must("volume", "umount", near)
	for _, wrong := range []string{"s3://no_bucket/x", "s3://" + server.Bucket + "-none/x"} {
		if r := b.Try("volume", "mount", wrong, near); r.Code == 0 || !strings.Contains(r.Stderr, "ucket") {
			t.Errorf("%s: %+v", wrong, r)
		}
	}
}

// TestVolumeBehindSSH mounts a directory of a host behind ssh, and kills the I/O process.
func TestVolumeBehindSSH(t *testing.T) {
	b, near := mountable(t)
	farm := sshfarm.Start(t, 1)
	b.Env = append(b.Env, farm.Env()...)
	dir := filepath.Join(farm.Dir, "far")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	far := "h0:" + dir
	b.Must("volume", "mount", far, near)
	script := exec.Command("sh", "-ec", `
		mkdir -p a/b && echo one > a/b/f && mv a/b/f a/g && ln -s g a/link && mv a c
		head -c 3000000 /dev/zero | tr '\0' x > big && chmod 751 big && touch -d @1000000000 c/g`)
	script.Dir = near
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	for _, pid := range processes(b, "volume-io ") {
		testkit.Kill(pid)
	}
	here := contents(t, near)
	b.Must("volume", "drain", near)
	var s volumeStatus
	b.JSON(&s, "volume", "status", "--json", far)
	if !s.Drained || s.Remote != far || len(s.Conflicts) > 0 {
		t.Errorf("%+v", s)
	}
	b.Must("volume", "umount", near)
	if got := contents(t, dir); !mapsEqual(got, here) || len(got) != 5 {
		t.Errorf("the host has %d names, and users saw %d", len(got), len(here))
	}
	if _, err := os.Lstat(filepath.Join(dir, ".bee")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left on the host: %v", err)
	}
	b.CheckNothingLeft(20 * time.Second)
	if r := b.Try("volume", "mount", far+"/none", near); r.Code == 0 || r.Stderr == "" {
		t.Errorf("a directory that is not there: %+v", r)
	}
}

// TestVolumeOfARun runs a job whose volume is a burst buffer, as the how-to shows: what it reads is on
// the remote, what it writes is there when the run has succeeded, and nothing else is left. Before,
// bee plan measures the remote.
func TestVolumeOfARun(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t,
		"volume: {kind: burst, remote: ./far, disk: 64M, expect: {write: 1M, every: 1m}}",
		"inputs: [{from: ./input, to: /work}]",
		"run: 'cat in/a there > out; mkdir d; echo deep > d/f; mv there moved; id -u > id; if rm fail; then exit 7; fi'",
		"workdir: /work",
		"outputs: [{from: /work/out, to: ./results}]")
	b.File("input/in/a", "input\n")
	b.File("far/there", "remote\n")
	far := filepath.Join(b.Work, "far")
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(b.Dir, "state", "mounts", "*"))
		for _, near := range mounts {
			endVolumes(b, near)
		}
	})
	var plan []struct {
		BurstBuffer *struct {
			Verdict, Remote string
			LineRate        float64 `json:"line_bytes_per_second"`
		} `json:"burst_buffer"`
	}
	if b.JSON(&plan, "plan", "--json", job); len(plan) != 1 || plan[0].BurstBuffer == nil || plan[0].BurstBuffer.Verdict == "" || plan[0].BurstBuffer.LineRate <= 0 || plan[0].BurstBuffer.Remote != far {
		t.Errorf("no verdict: %+v", plan)
	}
	if names, err := os.ReadDir(far); err != nil || len(names) != 1 {
		t.Errorf("bee plan has left %v, %v", names, err)
	}
	b.Must("run", job)
	want := map[string]string{"in/a": "input\n", "moved": "remote\n", "out": "input\nremote\n", "d/f": "deep\n", "id": itoa(os.Getuid()) + "\n"}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	if got := contents(t, far); len(got) != len(want)+2 {
		t.Errorf("the remote has %v", got)
	}
	if got := b.Read("results/out"); got != want["out"] {
		t.Errorf("the output has %q", got)
	}
	if err := os.Rename(filepath.Join(far, "moved"), filepath.Join(far, "there")); err != nil {
		t.Fatal(err)
	}
	b.File("far/fail", "")
	if r := b.Try("run", job); r.Code != 7 {
		t.Errorf("%+v", r)
	}
	if got := contents(t, far); len(got) != len(want)+2 {
		t.Errorf("after a job that failed, the remote has %v", got)
	}
	if left := append(processes(b, "volume-"), 0)[0]; left != 0 {
		t.Errorf("process %d is left", left)
	}
	for _, dir := range []string{"volumes", "mounts"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
}

// TestVolumeOfARunMoves has a job count in a burst buffer: a checkpoint is taken, the node and the buffer's
// processes are killed, and the run continues from exactly that checkpoint. Then it moves to another site,
// from where it was. The remote has all of it in the end, and nothing of BEE.
func TestVolumeOfARunMoves(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "volume: {kind: burst, remote: ./far, disk: 64M}", "workdir: /work",
		"checkpoint: {grace: 30s, command: 'touch ask; while [ -e ask ]; do sleep 0.1; done', paths: [/work/count]}", `run: |
  n=$(cat count 2>/dev/null || echo 0); echo "from $n" >> log
  until [ -e enough ]; do n=$((n+1)); echo $n > new; mv new count; [ ! -e ask ] || { rm ask; until [ -e go ]; do sleep 0.1; done; rm go; }; sleep 0.1; done`)
	b.File("far/kept", "kept")
	far := filepath.Join(b.Work, "far")
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local}\n  - {name: two, provider: local}\n")
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(b.Dir, "state", "mounts", "*"))
		for _, near := range mounts {
			endVolumes(b, near)
		}
	})
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	// counted waits until the remote has a line of the log for each attempt, and the count has grown.
	counted := func(attempts int) {
		t.Helper()
		testkit.Eventually(t, 2*time.Minute, func() error {
			log, err := os.ReadFile(filepath.Join(far, "log"))
			if err != nil || strings.Count(string(log), "from ") < attempts {
				return b.Explained(id, fmt.Sprintf("the log of the remote is %q, %v", log, err))
			}
			from, count := 0, 0
			lines := strings.Fields(string(log))
			raw, err := os.ReadFile(filepath.Join(far, "count"))
			if err == nil {
				_, err = fmt.Sscan(lines[len(lines)-1]+" "+string(raw), &from, &count)
			}
			if err != nil || count < from+3 {
				return b.Explained(id, fmt.Sprintf("counted from %d to %d, %v", from, count, err))
			}
			return nil
		})
	}
	counted(1)
	b.Must("checkpoint", id)
	testkit.Eventually(t, time.Minute, func() error {
		var v struct{ Checkpoints []struct{ Attempt int } }
		if b.JSON(&v, "show", "--json", id); len(v.Checkpoints) == 0 {
			return errors.New("the checkpoint is not on record")
		}
		return nil
	})
	b.Touch(id, "/work/go") // it stood still: its files have to be the same while they are copied
	var kept []string
	testkit.Eventually(t, time.Minute, func() (err error) {
		if kept, err = filepath.Glob(filepath.Join(far, ".bee", "generations", "2", "*.data")); err != nil || len(kept) == 0 {
			return b.Explained(id, fmt.Sprintf("nothing is kept of checkpoint 2: %v, %v", kept, err))
		}
		return nil
	})
	saved := 1 << 30 // of what is kept, the next count is that of a file that was renamed to its name
	for _, name := range kept {
		n := 0
		raw, err := os.ReadFile(name)
		if err == nil {
			_, err = fmt.Sscan(string(raw), &n)
		}
		if err != nil {
			t.Fatal(err)
		}
		saved = min(saved, n)
	}
	for _, which := range []string{"node", "volume-client ", "volume-io "} {
		for _, p := range processes(b, which) {
			testkit.Kill(p)
		}
	}
	counted(2)
	if r := b.Try("volume", "mount", far, b.Work); r.Code == 0 {
		t.Error("another volume has the remote of the run")
	}
	b.Must("--sites", sites, "move", "--site", "one", id) // the lost one was followed by another site
	counted(3)
	b.Touch(id, "/work/enough")
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 3 || v.Attempts[1].Site != "two" || v.Attempts[2].Site != "one" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	var from [3]int
	log, err := os.ReadFile(filepath.Join(far, "log"))
	if err == nil {
		_, err = fmt.Sscanf(string(log), "from %d\nfrom %d\nfrom %d\n", &from[0], &from[1], &from[2])
	}
	if err != nil || from[0] != 0 || from[1] != saved || from[2] < saved+3 {
		t.Errorf("attempts began %q, %v; the checkpoint had %d", log, err, saved)
	}
	names, err := os.ReadDir(far)
	if err != nil || len(names) != 4 { // kept, log, count, enough
		t.Errorf("the remote has %v, %v", names, err)
	}
	for _, dir := range []string{"volumes", "mounts"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
	b.CheckNothingLeft(20 * time.Second)
}
