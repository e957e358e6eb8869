package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCommandsThatReadStartNothing: they name the command that does.
func TestCommandsThatReadStartNothing(t *testing.T) {
	for _, line := range []string{"ps", "ps --json", "ps -q", "show aaaa1111", "show --json aaaa1111"} {
		t.Run(line, func(t *testing.T) {
			d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Queued})
			if err := d.bee(strings.Fields(line)...); err != nil {
				t.Fatal(err)
			}
			if reported := strings.Contains(d.err.String(), "bee supervise"); reported == (line == "ps -q") {
				t.Errorf("standard error has %q", d.err.String())
			}
			if entries, err := os.ReadDir(filepath.Join(d.dir, "s", "controllers")); !os.IsNotExist(err) {
				t.Errorf("it has handed runs over: %v, %v", entries, err)
			}
			if err := d.bee("supervise"); err != nil || d.out.String() != "aaaa1111\n" {
				t.Errorf("supervise printed %q: %v", d.out.String(), err)
			}
			if entries, err := os.ReadDir(filepath.Join(d.dir, "s", "controllers")); len(entries) != 1 {
				t.Errorf("handed over to %v, %v", entries, err)
			}
		})
	}
}

// TestNoCommandIsNamedWithoutNeed: of runs that need no controller, nothing is reported.
func TestNoCommandIsNamedWithoutNeed(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", State: state.Succeeded}, state.Run{ID: "bbbb1111", State: state.Suspended}, state.Run{ID: "cccc1111", State: state.Running})
	lock, err := d.store.Locks().Acquire("cccc1111") // as its controller does
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	for _, line := range []string{"ps -a", "show aaaa1111", "show bbbb1111", "show cccc1111"} {
		if err := d.bee(strings.Fields(line)...); err != nil || d.err.Len() > 0 {
			t.Errorf("bee %s: %q, %v", line, d.err.String(), err)
		}
	}
	if err := d.bee("supervise", "--json"); err != nil || strings.TrimSpace(d.out.String()) != "[]" {
		t.Errorf("supervise printed %q: %v", d.out.String(), err)
	}
}

// TestSuperviseLooksTwice: a controller that was killed may hold the lock of its run for a
// moment.
func TestSuperviseLooksTwice(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Queued, Submission: []byte(`{"version": 1}`)})
	lock, err := d.store.Locks().Acquire("aaaa1111")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(30*time.Millisecond, func() { _ = lock.Unlock() })
	if err := d.bee("supervise"); err != nil || d.out.String() != "aaaa1111\n" {
		t.Errorf("bee supervise printed %q: %v", &d.out, err)
	}
}

// TestARunThatIsForgottenMeanwhile: the controller of a killed build ends and forgets its
// run, between the looks of bee supervise.
func TestARunThatIsForgottenMeanwhile(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Queued, Submission: []byte(`{"version": 1}`)})
	time.AfterFunc(150*time.Millisecond, func() { _ = d.store.RemoveRun(context.Background(), "aaaa1111") })
	if err := d.bee("supervise"); err != nil || d.out.Len() > 0 {
		t.Errorf("bee supervise printed %q: %v", &d.out, err)
	}
}

// TestSuperviseAtLoginNamesThisInstallation, and no shell's working directory.
func TestSuperviseAtLoginNamesThisInstallation(t *testing.T) {
	d := newDesk(t)
	bin := t.TempDir()
	if err := core.WriteProgram(filepath.Join(bin, "crontab"), []byte("#!/bin/sh\n[ \"$1\" = -l ] && exit 1\n/bin/cat >'"+bin+"/table'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("BEE_SITES", "sites.yaml")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.bee("supervise", "--install"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(bin, "table"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"'--state-dir' '" + filepath.Join(d.dir, "s") + "'", "'--cache' '" + filepath.Join(d.dir, "c") + "'", "'--sites' '" + filepath.Join(wd, "sites.yaml") + "'"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("the entry %q lacks %s", raw, want)
		}
	}
}
