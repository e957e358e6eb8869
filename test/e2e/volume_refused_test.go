package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestVolumeOfARunIsRefused makes the remote of a run read-only while its job runs. The run's record shows that
// at once, with a remedy, and the run fails instead of waiting. Nothing is lost: it is drained once the remote
// is writable again.
func TestVolumeOfARunIsRefused(t *testing.T) {
	testkit.RequireRoot(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "volume: {kind: burst, remote: ./far, disk: 64M}", "workdir: /work",
		"run: 'echo first > f; until [ -e /tmp/go ]; do sleep 0.1; done; echo second > g'")
	far := filepath.Join(b.Work, "far")
	if err := errors.Join(os.MkdirAll(far, 0o755), syscall.Mount("tmpfs", far, "tmpfs", 0, "size=8m")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(b.Dir, "state", "mounts", "*"))
		for _, near := range mounts {
			endVolumes(b, near)
		}
		if err := syscall.Unmount(far, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	writable := func(is bool) {
		t.Helper()
		flags := uintptr(syscall.MS_REMOUNT)
		if !is {
			flags |= syscall.MS_RDONLY
		}
		if err := syscall.Mount("tmpfs", far, "tmpfs", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if got, err := os.ReadFile(filepath.Join(far, "f")); err != nil || string(got) != "first\n" {
			return b.Explained(id, fmt.Sprintf("the remote has %q, %v", got, err))
		}
		return nil
	})
	writable(false)
	b.Must("exec", id, "--", "sh", "-c", "echo unsent > /work/h")
	var v struct {
		Volume struct {
			Refused            struct{ Reason, Remedy string }
			Waits, ID          string
			Written, Undrained int64
		}
		History []struct{ Text string }
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.JSON(&v, "show", "--json", id); v.Volume.Refused.Reason != "read_only" || v.Volume.Refused.Remedy == "" || v.Volume.Written < 12 || v.Volume.Undrained != 7 {
			return fmt.Errorf("%+v", v.Volume)
		}
		for _, e := range v.History {
			if strings.Contains(e.Text, "bee volume recover "+far) {
				return nil
			}
		}
		return fmt.Errorf("nothing in the history: %+v", v.History)
	})
	if text := b.Must("show", id); !strings.Contains(text, v.Volume.Refused.Remedy) {
		t.Errorf("bee show prints no remedy:\n%s", text)
	}
	if r := b.Try("exec", id, "--", "sh", "-c", "echo more | dd of=/work/h conv=fsync"); r.Code == 0 {
		t.Error("a program synced what the remote refuses")
	}
	b.Must("exec", id, "--", "touch", "/tmp/go")
	if run := b.Await(id, time.Minute); run.State != "failed" || run.Error == nil || !strings.Contains(run.Error.Remedy, "bee volume recover "+far) || run.Attempts[0].Phases["drain"] <= 0 {
		t.Errorf("%+v, %+v", run, run.Error)
	}
	var s struct {
		Run, ID string
		Running bool
		Refused struct{ Reason string }
	}
	if b.JSON(&s, "volume", "status", "--json", id); s.Run != id || s.ID != v.Volume.ID || !s.Running || s.Refused.Reason != "read_only" {
		t.Errorf("%+v", s)
	}
	if r := b.Try("volume", "drain", id); r.Code == 0 || !strings.Contains(r.Stderr, "read_only") {
		t.Errorf("a drain that the remote refuses: %+v", r)
	}
	writable(true)
	b.Must("volume", "recover", id)
	for name, text := range map[string]string{"f": "first\n", "g": "second\n", "h": "more\n"} {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	for _, dir := range []string{"volumes", "mounts"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
}
