package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// programs are scripts in place of systemctl and crontab. They keep their calls, and the
// table of cron, in files of their directory.
var programs = map[string]string{
	"systemctl": `echo "$@" >>"$(dirname "$0")/calls"`,
	"crontab": `t=$(dirname "$0")/table
case $1 in -l) [ -e "$t" ] || { echo "no crontab for me" >&2; exit 1; }; cat "$t" ;; -) cat >"$t" ;; esac`,
}

// login returns an entry on a machine that has some of the programs, and their directory.
func login(t *testing.T, names ...string) (Login, string) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range names {
		if err := core.WriteProgram(filepath.Join(bin, name), []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+programs[name]+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	return Login{Name: "bee-supervise-1", Args: []string{"/opt/my bee/bee", "supervise", "--state", `/s/100%/$a"b'c`}, Path: "/usr/bin", Config: t.TempDir()}, bin
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestInstallWithSystemd(t *testing.T) {
	l, bin := login(t, "systemctl", "crontab")
	place, err := l.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.Config, "systemd", "user", "bee-supervise-1.service")
	text := read(t, file)
	if want := `ExecStart="/opt/my bee/bee" "supervise" "--state" "/s/100%%/$$a\"b'c"` + "\n"; !strings.Contains(text, want) || !strings.Contains(place, file) {
		t.Errorf("the unit in %s is\n%s, want %s", place, text, want)
	}
	if calls := read(t, bin+"/calls"); !strings.HasSuffix(calls, "--user daemon-reload\n--user enable bee-supervise-1.service\n") {
		t.Errorf("calls were\n%s", calls)
	}
	if _, err := os.Stat(bin + "/table"); err == nil {
		t.Error("cron has an entry, too")
	}
	if err := l.Uninstall(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(file); !os.IsNotExist(err) {
		t.Errorf("the unit is still there: %v", err)
	}
	if calls := read(t, bin+"/calls"); !strings.Contains(calls, "--user disable bee-supervise-1.service\n") {
		t.Errorf("calls were\n%s", calls)
	}
}

func TestInstallWithCron(t *testing.T) {
	const own = "0 5 * * * backup\n"
	want := `@reboot PATH='/usr/bin' '/opt/my bee/bee' 'supervise' '--state' '/s/100\%/$a"b'\''c' # bee-supervise-1` + "\n"
	for name, before := range map[string]string{"without a table": "", "beside another job": own, "with an older entry": "@reboot bee supervise # bee-supervise-1\n" + own} {
		t.Run(name, func(t *testing.T) {
			l, bin := login(t, "crontab")
			rest := ""
			if before != "" {
				rest = own
				if err := os.WriteFile(bin+"/table", []byte(before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if _, err := l.Install(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := read(t, bin+"/table"); got != rest+want {
				t.Errorf("the table is\n%swant\n%s", got, rest+want)
			}
			if err := l.Uninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := read(t, bin+"/table"); got != rest {
				t.Errorf("afterwards the table is\n%swant\n%s", got, rest)
			}
		})
	}
}

func TestInstallWithoutAScheduler(t *testing.T) {
	l, _ := login(t)
	if place, err := l.Install(t.Context()); !core.IsKind(err, core.Unsupported) {
		t.Errorf("installed in %q: %v", place, err)
	}
}
