package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
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

func mapsEqual(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
