package sshlink

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestConfigurationsOfPeople: what ~/.ssh/config has for logins by hand disturbs no
// connection of ours.
func TestConfigurationsOfPeople(t *testing.T) {
	f := sshfarm.Start(t, 1)
	own, err := os.ReadFile(f.Config)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	sockets, err := os.MkdirTemp("", "cm-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	touched := filepath.Join(f.Dir, "touched")
	for _, lines := range []string{
		"RemoteCommand tmux attach",
		"RemoteCommand bash -l; RequestTTY force",
		"RequestTTY yes; LogLevel DEBUG2; VisualHostKey yes",
		"LogLevel QUIET",
		"StdinNull yes",
		"SessionType none",
		"SessionType subsystem",
		"ForkAfterAuthentication yes; StdinNull yes",
		"PermitLocalCommand yes; LocalCommand touch " + touched,
		"ControlMaster auto; ControlPath " + sockets + "/%C; ControlPersist 1",
		"ExitOnForwardFailure yes; LocalForward " + taken.Addr().String() + " 127.0.0.1:1",
		"ForwardX11 yes; ForwardX11Trusted yes; ForwardAgent yes",
		"EscapeChar ~; Compression yes; SetEnv LANG=C FOO=bar",
		"Tunnel yes; GatewayPorts yes",
		"IgnoreUnknown UseKeychain; UseKeychain yes; RemoteCommand htop",
	} {
		t.Run(lines, func(t *testing.T) {
			config := "Host *\n  " + strings.ReplaceAll(lines, "; ", "\n  ") + "\n" + string(own)
			if err := os.WriteFile(f.Config, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			p := client(t, f)
			l, err := p.Connect(t.Context(), "h0")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			byHand := p.byHand("h0")
			if strings.Contains(lines, "RemoteCommand") && !strings.Contains(byHand, "RemoteCommand=none") {
				t.Errorf("the command by hand fails: %s", byHand)
			}
			if _, err := os.Lstat(touched); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a local command ran: %v", err)
			}
		})
	}
}

// TestWordsOfAnAccountsFiles: what start-up files print, in whichever shell, is no word of
// the agent's.
func TestWordsOfAnAccountsFiles(t *testing.T) {
	for name, says := range map[string]string{
		"lines":             "echo Welcome; echo quota 80% >&2",
		"no end of line":    "printf Welcome",
		"looks like ours":   "echo BEEKEEPERS welcome",
		"much":              "seq 10000",
		"terminal escapes":  `printf '\\033]0;title\\007'`,
		"functions":         `cd() { command cd "$@" && echo now in "$PWD"; }; export CDPATH=.:/tmp`,
		"a strange locale":  "export LC_ALL=tr_TR.UTF-8 POSIXLY_CORRECT=1",
		"options of ls":     "export LS_OPTIONS=-x QUOTING_STYLE=shell TIME_STYLE=full-iso BLOCK_SIZE=1",
		"a strict umask":    "umask 077",
		"a field separator": "IFS=/; export IFS",
	} {
		t.Run(name, func(t *testing.T) {
			p := stub(t, "export XDG_CACHE_HOME="+t.TempDir()+"\n"+says)
			if l, err := p.Connect(t.Context(), "far"); err != nil {
				t.Error(err)
			} else {
				l.Close()
			}
		})
	}
}
