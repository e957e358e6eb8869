package cloud

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestStartScript is a script of the shell, whole, and below what clouds take.
func TestStartScript(t *testing.T) {
	text, err := script("ann", "KEY", "ssh-ed25519 AAAA", "", time.Unix(1800000000, 0), time.Unix(1800003600, 0))
	if err != nil || regexp.MustCompile("@[A-Z]+@").MatchString(text) || !strings.Contains(text, "1800000000") || len(text) > mostScript/2 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	c := exec.Command("/bin/sh", "-n")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := script("ann; reboot", "KEY", "k", "", time.Now(), time.Now()); err == nil {
		t.Error("a user who is none is taken")
	}
}

// TestStartScriptAgain: where a reset has cut the script short, it runs again, and nothing is twice. What would change the
// machine of the test has stand-ins.
func TestStartScriptAgain(t *testing.T) {
	testkit.RequireTool(t, "ssh-keygen")
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	private, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := script("ann", string(private), "ssh-ed25519 AAAA", "", time.Unix(1800000000, 0), time.Unix(1800003600, 0))
	if err != nil {
		t.Fatal(err)
	}
	etc, bin := filepath.Join(dir, "etc"), filepath.Join(dir, "bin")
	if err := errors.Join(os.MkdirAll(filepath.Join(etc, "ssh"), 0o755), os.Mkdir(bin, 0o755), os.WriteFile(filepath.Join(etc, "ssh", "sshd_config"), []byte("UsePAM yes\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, program := range map[string]string{"systemctl": "", "restorecon": "", "chown": "", "id": `[ -e "$0.made" ]`, "useradd": `set -C; : >"${0%/*}/id.made"`} {
		if err := core.WriteProgram(filepath.Join(bin, name), []byte("#!/bin/sh\n"+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text = strings.ReplaceAll(text, "/etc/", etc+"/")
	run := func(text string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "/bin/sh", "-c", text)
		c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, cut := range []string{"mkdir -p " + etc + "/security", "\nssh-keygen -q", "\n: >" + etc, "\nsystemctl reload"} {
		begin, _, found := strings.Cut(text, cut)
		if !found {
			t.Fatalf("the script has no %q", cut)
		}
		run(begin)
	}
	run(text)
	run(text)
	for name, want := range map[string]int{"ssh/sshd_config": 1, "bee/guard": 0, "ssh/bee_login": 0, "bee/host_key.pub": 0} {
		raw, err := os.ReadFile(filepath.Join(etc, name))
		if err != nil || len(raw) == 0 || strings.Count(string(raw), "Match User ann") != want {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
}

// TestGuard powers the machine off at its expiry, also where a process cannot be had for a moment before; and only at
// the last moment while files are fetched.
func TestGuard(t *testing.T) {
	for fetching, looks := range map[string]string{"": "4\n", "echo /etc/bee/fetching": "5\n"} {
		guardEnds(t, fetching, looks)
	}
}

// guardEnds runs the guard with a stand-in for find, until it has powered the machine off.
func guardEnds(t *testing.T, find, looks string) {
	t.Helper()
	text, err := script("ann", "KEY", "ssh-ed25519 AAAA", "", time.Unix(1800000000, 0), time.Unix(1800000001, 0))
	if err != nil {
		t.Fatal(err)
	}
	_, guard, _ := strings.Cut(text, "/etc/bee/guard <<'END'\n")
	guard, _, found := strings.Cut(guard, "\nEND\n")
	if !found {
		t.Fatalf("no guard in %q", text)
	}
	bin := t.TempDir()
	for name, program := range map[string]string{
		"ip": "echo 169.254.169.254", "grep": "", "sysctl": "", "sync": "", "sleep": "", "find": find,
		// Twice there is no process, then the expiry is a moment away, and then it is reached.
		"date":     `n=$(/bin/cat "$0.n" 2>/dev/null || echo 0); echo $((n + 1)) >"$0.n"; [ "$n" -gt 1 ] || exit 1; echo $((1800000000 - 3 + n))`,
		"poweroff": `: >"$0.done"; kill -KILL "$PPID"`,
	} {
		if err := core.WriteProgram(filepath.Join(bin, name), []byte("#!/bin/sh\n"+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", guard)
	c.Env = []string{"PATH=" + bin}
	out, _ := c.CombinedOutput() // poweroff kills it
	if _, err := os.Stat(filepath.Join(bin, "poweroff.done")); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if n, err := os.ReadFile(filepath.Join(bin, "date.n")); err != nil || string(n) != looks {
		t.Errorf("it has looked at the clock %q times, expected %q, %v", n, looks, err)
	}
}

// TestGuardWhoseWatchEnds: where nothing looks for the cloud's notice any more, the guard ends, and is started again.
func TestGuardWhoseWatchEnds(t *testing.T) {
	text, err := script("ann", "KEY", "ssh-ed25519 AAAA", "false", time.Unix(1800000000, 0), time.Unix(1800000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	_, guard, _ := strings.Cut(text, "/etc/bee/guard <<'END'\n")
	guard, _, _ = strings.Cut(guard, "\nEND\n")
	bin := t.TempDir()
	for name, program := range map[string]string{
		"ip": "echo 169.254.169.254", "grep": "", "sysctl": "", "date": "echo 1",
		"sleep": `[ "$1" -ne 1 ] || { kill -KILL "$PPID"; : >"$0.killed"; exit; }; exec /bin/sleep 0.02`,
	} {
		if err := core.WriteProgram(filepath.Join(bin, name), []byte("#!/bin/sh\n"+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", guard)
	c.Env, c.WaitDelay = []string{"PATH=" + bin}, time.Second
	out, err := c.CombinedOutput()
	if _, serr := os.Stat(filepath.Join(bin, "sleep.killed")); serr != nil {
		t.Error(serr)
	}
	if c.ProcessState.ExitCode() != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestWatch has the guard write what the cloud announces, and nothing else.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	notice := `n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; echo "maintenance $((100 + n))"; [ $n -lt 2 ] || echo "notice 300"; echo "rebalance soon"; echo "../harm 1"; echo "rebalance -1"; [ $n -lt 3 ] || echo done >done`
	watch := strings.ReplaceAll(strings.Replace(watchScript, "@NOTICE@", notice, 1), "/etc/bee", dir)
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(watch, "sleep 1", "[ ! -e done ] || exit; sleep 0.01")+"wait")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{"notice": "300\n", "maintenance": "103\n", "rebalance": "", "../harm": ""} {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want { // of what is not there nothing is read
			t.Errorf("%s has %q, expected %q", name, got, want)
		}
	}
}
