package sshlink

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	f := sshfarm.Start(t, 2)
	other, changed := filepath.Join(f.Dir, "other-known"), filepath.Join(f.Dir, "changed")
	own, err := os.ReadFile(filepath.Join(f.Dir, "user.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(changed, append([]byte("h0 "), own...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		host    string
		options map[string]string
		kind    core.Kind
		command string // in the remedy
	}{
		{"unknown host key", "h0", map[string]string{"UserKnownHostsFile": other}, core.Permanent, " h0`"},
		{"changed host key", "h0", map[string]string{"UserKnownHostsFile": changed, "HostKeyAlias": "h0", "CheckHostIP": "no"}, core.Permanent, "ssh-keygen "},
		{"key not accepted", "h0", map[string]string{"IdentityFile": other, "IdentitiesOnly": "yes", "PubkeyAuthentication": "no"}, core.Permanent, "ssh-copy-id"},
		{"nobody listens", "h0", map[string]string{"ProxyCommand": "none", "HostName": "127.0.0.1", "Port": "1"}, core.Transient, " h0 true`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := client(t, f)
			p.s.Options = c.options
			_, err := p.Connect(t.Context(), c.host)
			if !core.IsKind(err, c.kind) || !strings.Contains(core.Remedy(err), c.command) || strings.Contains(err.Error(), "\r") || strings.Contains(err.Error(), "@@") {
				t.Errorf("got %v (kind %v, remedy %q)", err, core.KindOf(err), core.Remedy(err))
			}
		})
	}
}

// TestWhoWasLetInBefore is waited for, whatever name servers and logins say meanwhile.
func TestWhoWasLetInBefore(t *testing.T) {
	p := stub(t, ":")
	for _, c := range []struct {
		words         string
		first, before core.Kind
	}{
		{"ssh: Could not resolve hostname h0: Temporary failure in name resolution", core.Transient, core.Transient},
		{"ssh: Could not resolve hostname h0: Name or service not known", core.Permanent, core.Transient},
		{"ann@h0: Permission denied (publickey).", core.Permanent, core.Transient},
		{"Host key verification failed.", core.Permanent, core.Permanent},
	} {
		p.answered.Clear()
		for _, want := range []core.Kind{c.first, c.before} {
			if err := p.explain("h0", c.words, errors.New("exit status 255")); !core.IsKind(err, want) || core.Remedy(err) == "" {
				t.Errorf("%s: %v (kind %v, want %v; remedy %q)", c.words, err, core.KindOf(err), want, core.Remedy(err))
			}
			p.answered.Store("h0", true)
		}
	}
}

// TestRemediesHaveTheSitesOptions: without them, people would try another port.
func TestRemediesHaveTheSitesOptions(t *testing.T) {
	p := stub(t, ":")
	p.s.Options = map[string]string{"Port": "2222", "ProxyCommand": "nc %h %p"}
	for _, words := range []string{"Host key verification failed.", "ann@h0: Permission denied (publickey).", "Connection refused", "anything"} {
		if got := core.Remedy(p.explain("h0", words, errors.New("exit status 255"))); !strings.Contains(got, "`ssh -o Port=2222 -o 'ProxyCommand=nc %h %p' h0") {
			t.Errorf("%s: %s", words, got)
		}
	}
}

// stub returns a client whose ssh program runs the boot script here, after a line of its own.
func stub(t *testing.T, line string) *Client {
	t.Helper()
	client := filepath.Join(t.TempDir(), "ssh")
	if err := core.WriteProgram(client, []byte("#!/bin/sh\n"+line+"\nfor last; do :; done\neval \"$last\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return New(Settings{Program: client, BinaryFor: func(string) (string, error) { return os.Executable() }})
}

func TestLoginsThatCannotBeUsed(t *testing.T) {
	bin := t.TempDir()
	for name, text := range map[string]string{"uname": "#!/bin/sh\n[ $1 = -s ] && echo Linux || echo ppc64le\n", "chmod": "#!/bin/sh\n"} {
		dir := filepath.Join(bin, name+".d")
		if err := errors.Join(os.Mkdir(dir, 0o755), core.WriteProgram(filepath.Join(dir, name), []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, line, printed, remedy string }{
		{"no login", "echo This account is not available.; exit 1", "This account is not available.", "ssh h true"},
		{"nothing printed", "exit 3", "", "ssh h true"},
		{"other architecture", "PATH=" + bin + "/uname.d:$PATH", "Linux-ppc64le", "x86_64"},
		// What is not executable is so by its mode or by its file system's.
		{"no programs in the cache", "PATH=" + bin + "/chmod.d:$PATH; export XDG_CACHE_HOME=" + t.TempDir(), "", "XDG_CACHE_HOME"},
		{"no memory", "ulimit -v 30000; export XDG_CACHE_HOME=" + t.TempDir(), "", "~/.cache/bee/bin/bee-* version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := stub(t, c.line).Connect(t.Context(), "h")
			if err == nil || !strings.Contains(err.Error(), c.printed) || !strings.Contains(core.Remedy(err), c.remedy) {
				t.Errorf("got %v (remedy %q)", err, core.Remedy(err))
			}
		})
	}
}

// TestAJumpCannotAsk: the ssh that ssh starts for a jump asks at the terminal,
// whatever BatchMode says, and a run would wait for the answer.
func TestAJumpCannotAsk(t *testing.T) {
	_, err := stub(t, `test "$SSH_ASKPASS_REQUIRE" = never && test "$(cut -d' ' -f6 /proc/$$/stat)" = $$ && echo no-terminal; exit 1`).Connect(t.Context(), "h")
	if err == nil || !strings.Contains(err.Error(), "no-terminal") {
		t.Errorf("got %v", err)
	}
}

// TestAJumpIsTaken, as the user's configuration or the site asks for one.
func TestAJumpIsTaken(t *testing.T) {
	f := sshfarm.Start(t, 2)
	p := client(t, f)
	p.s.Options = map[string]string{"ProxyJump": "h0"}
	login(t, p, "h1")
	if err := f.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Connect(t.Context(), "h1"); !core.IsKind(err, core.Transient) {
		t.Errorf("without the host that is jumped over: %v", err)
	}
}

// TestTheAgentIsAsked for a key that is in no file, and is missed when it has none.
func TestTheAgentIsAsked(t *testing.T) {
	agent, add := testkit.RequireTool(t, "ssh-agent"), testkit.RequireTool(t, "ssh-add")
	f := sshfarm.Start(t, 1)
	socket := filepath.Join(f.Dir, "agent")
	running := exec.CommandContext(t.Context(), agent, "-D", "-a", socket)
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Wait() }) //nolint:errcheck // it was killed at the test's end
	t.Setenv("SSH_AUTH_SOCK", socket)
	key := filepath.Join(f.Dir, "user")
	testkit.Eventually(t, 20*time.Second, func() error {
		out, err := exec.Command(add, "-q", key).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	login(t, client(t, f), "h0")
	if out, err := exec.Command(add, "-q", "-D").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := client(t, f).Connect(t.Context(), "h0"); !strings.Contains(core.Remedy(err), "ssh-agent") {
		t.Errorf("without the key: %v", err)
	}
}

// TestWhatSSHPrintsIsBounded: only the end of what ssh and the host's agent print is kept.
func TestWhatSSHPrintsIsBounded(t *testing.T) {
	var l lastWords
	for range 1000 {
		if n, err := l.Write([]byte(strings.Repeat("x", 10_000))); n != 10_000 || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
	}
	if _, err := l.Write([]byte("the end\r\n")); err != nil || cap(l.buf) > 1<<20 {
		t.Errorf("it takes %d bytes, %v", cap(l.buf), err)
	}
	if text := l.String(); len(text) > 4096 || !strings.HasSuffix(text, "the end") {
		t.Errorf("%d bytes are kept, and end with %q", len(text), text[max(0, len(text)-10):])
	}
}
