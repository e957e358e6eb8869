package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestDebianBuildIsReproducible builds the same thing in two caches.
func TestDebianBuildIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute, which -short is not to")
	}
	testkit.RequireTool(t, "mmdebstrap")
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	data, dir := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "a b")
	script := filepath.Join(dir, "sub", "script.sh")
	if err := errors.Join(core.WriteProgram(filepath.Join(bin, "python3"), []byte("#!/bin/sh\nexit 1\n"), 0o755), os.WriteFile(data, []byte("some data"), 0o644), os.MkdirAll(filepath.Dir(script), 0o755),
		core.WriteProgram(script, []byte("#!/bin/sh\ncat /opt/app/data\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	b := spec.Build{
		Debian: "bookworm", Slim: true, Packages: []string{"hello"},
		Copy: []spec.Copy{{From: data, To: "/opt/app/data"}, {From: dir, To: "/opt/new/dir"}, {From: script, To: "/opt/bin/"}},
		Run:  []string{"/opt/new/dir/sub/script.sh > /opt/app/copy", "/opt/bin/script.sh > /opt/app/again", "hello > /opt/app/hello"}, Env: map[string]string{"B": "2", "A": "1"}, Workdir: "/opt/app",
	}
	stores := []*Store{store(t), store(t)}
	images := make([]core.Image, len(stores))
	var wg sync.WaitGroup
	for n, s := range stores {
		wg.Go(func() {
			var err error
			if images[n], err = s.Build(t.Context(), b, PullOptions{}); err != nil {
				t.Errorf("%v\n%s", err, core.Remedy(err))
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	if images[0].ID != images[1].ID {
		t.Errorf("two builds differ: %s, %s", images[0].ID, images[1].ID)
	}
	i, s := images[0], stores[0]
	if got := fmt.Sprintf("%v %s", i.Config.Env[1:], i.Config.WorkingDir); got != "[A=1 B=2] /opt/app" {
		t.Errorf("got the configuration %s", got)
	}
	for name, want := range map[string]string{"copy": "some data", "again": "some data", "hello": "Hello, world!\n"} {
		if got, err := os.ReadFile(filepath.Join(s.dir.path("trees", i.ID), "opt/app", name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if hosts, err := filepath.Glob(filepath.Join(s.dir.path("trees", i.ID), "etc/apt/sources.list*")); err != nil || len(hosts) > 1 {
		t.Errorf("the image tells where it was made: %v, %v", hosts, err)
	}
	var printed []string
	progress := PullOptions{Progress: func(m string, _, _ int64) { printed = append(printed, m) }}
	if again, err := s.Build(t.Context(), b, progress); err != nil || again.ID != i.ID || len(printed) > 0 {
		t.Errorf("the second time: %v, %v, with the steps %q", again.ID, err, printed)
	}
	// What only copies and commands have changed in has its packages already.
	b.Run = append(b.Run, "test -c /dev/null && dpkg -s hello > /opt/app/known")
	if err := os.WriteFile(data, []byte("other data"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed, err := s.Build(t.Context(), b, progress)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(printed, func(m string) bool { return strings.Contains(m, "installing") }) {
		t.Errorf("the packages are installed anew: %q", printed)
	}
	for name, want := range map[string]string{"copy": "other data", "hello": "Hello, world!\n", "known": "Package: hello\n"} {
		if got, err := os.ReadFile(filepath.Join(s.dir.path("trees", changed.ID), "opt/app", name)); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := (Remover{Cache: s}).Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(s.Dir(), "blobs")); err != nil || len(left) > 0 {
		t.Errorf("after prune: %v, %v", left, err)
	}
}

func TestDebianBuildThatCannotBe(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	s := store(t)
	t.Run("no mmdebstrap", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := s.Build(t.Context(), spec.Build{Debian: "bookworm"}, PullOptions{})
		if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "mmdebstrap") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a snapshot that is no date", func(t *testing.T) {
		_, err := s.Build(t.Context(), spec.Build{Debian: "bookworm", Snapshot: "yesterday"}, PullOptions{})
		if !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such mirror", func(t *testing.T) {
		_, err := s.Build(t.Context(), spec.Build{Debian: "bookworm", Mirror: "http://127.0.0.1:1/debian"}, PullOptions{})
		if err == nil || !strings.Contains(err.Error(), "mmdebstrap") || strings.Contains(err.Error(), "umount") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no such package", func(t *testing.T) {
		var printed []string
		_, err := s.Build(t.Context(), spec.Build{Debian: "bookworm", Packages: []string{"hello", "no-such-package"}}, PullOptions{Progress: func(m string, _, _ int64) { printed = append(printed, m) }})
		if err == nil || !strings.Contains(err.Error(), "no-such-package") || core.Remedy(err) == "" {
			t.Errorf("got %v", err)
		}
		if slices.ContainsFunc(printed, func(m string) bool { return strings.Contains(m, "installing") }) {
			t.Errorf("it is told once all else is there: %q", printed)
		}
	})
	if left, _ := os.ReadDir(filepath.Join(s.Dir(), "tmp")); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}
}

// TestKilledBuildLeavesNothing: mmdebstrap, in the middle of a step that takes
// long, ends and tidies up when bee is killed.
func TestKilledBuildLeavesNothing(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireUser(t) // as root it ends after its step
	temp, err := os.MkdirTemp("/tmp", "bee-killed-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil { // for the subordinate ids
		t.Fatal(err)
	}
	s := store(t)
	step := fmt.Sprintf("sleep 3600.%d", os.Getpid()) // a number by which it is found
	b, err := json.Marshal(spec.Build{Debian: "bookworm", Run: []string{"touch /begun; " + step}})
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "build", s.Dir(), string(b))
	c.Env = append(os.Environ(), "TMPDIR="+temp)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Minute, func() error { // it unpacks Debian first
		if found, _ := filepath.Glob(temp + "/mmdebstrap.*/begun"); len(found) == 0 {
			return errors.New("the step does not begin")
		}
		return nil
	})
	c.Process.Kill()
	c.Wait() //nolint:errcheck // it was killed
	testkit.Eventually(t, time.Minute, func() error {
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		running, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range running {
			if raw, _ := os.ReadFile(file); strings.Contains(strings.ReplaceAll(string(raw), "\x00", " "), step) {
				return fmt.Errorf("%s still runs: %q", file, raw)
			}
		}
		return nil
	})
	if err := s.dir.sweep(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.Dir(), "tmp")); len(left) > 0 {
		t.Errorf("left in tmp: %v", left)
	}
}

// What mmdebstrap says of another architecture, in its own words.
func TestAnotherArchitecturesNeedsAreTold(t *testing.T) {
	for _, log := range []string{"E: install arch-test for foreign architecture support", "E: arm64 can neither be executed natively nor via qemu user emulation with binfmt_misc"} {
		err := debianError(t.Context(), errors.New("exit status 25"), log)
		if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "qemu-user-static") {
			t.Errorf("%s: %v, %s", log, err, core.Remedy(err))
		}
	}
}

func TestDebianImagesHaveReadableNames(t *testing.T) {
	for want, packages := range map[string][]string{
		"debian:bookworm":                nil,
		"debian:bookworm+a+b+c+d":        {"a", "b", "c", "d"},
		"debian:bookworm+a+b+c+d+2-more": {"a", "b", "c", "d", "e", "f"},
	} {
		if got := debianName(spec.Build{Debian: "bookworm", Packages: packages}); got != want {
			t.Errorf("%v make %q, want %q", packages, got, want)
		}
	}
}
