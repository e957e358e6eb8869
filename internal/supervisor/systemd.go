package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// systemd is the instance of systemd that runs for the user.
type systemd struct{ Login }

func (s systemd) unit() string { return s.Name + ".service" }

func (s systemd) file() string { return filepath.Join(s.Config, "systemd", "user", s.unit()) }

func (s systemd) usable(ctx context.Context) bool {
	_, err := output(ctx, "", "systemctl", "--user", "show-environment")
	return err == nil
}

func (s systemd) install(ctx context.Context) (string, error) {
	if err := fsutil.MkdirAll(filepath.Dir(s.file()), 0o755); err != nil {
		return "", err
	}
	if err := fsutil.WriteFile(s.file(), []byte(s.text()), 0o600); err != nil {
		return "", err
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", s.unit()}} {
		if _, err := output(ctx, "", "systemctl", append([]string{"--user"}, args...)...); err != nil {
			return "", err
		}
	}
	return "the user unit " + s.file(), nil
}

func (s systemd) uninstall(ctx context.Context) error {
	if there, err := fsutil.Exists(s.file()); err != nil || !there {
		return err
	}
	_, err := output(ctx, "", "systemctl", "--user", "disable", s.unit())
	if rerr := os.Remove(s.file()); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// text is the unit file. The program starts the supervisor and ends, so systemd must
// leave the processes that remain.
func (s systemd) text() string {
	words := make([]string, len(s.Args))
	for i, a := range s.Args {
		words[i] = quoteUnit(a)
	}
	return "[Unit]\nDescription=Continue the runs of BEE that have no controller\n\n" +
		"[Service]\nType=oneshot\nRemainAfterExit=yes\nKillMode=process\nEnvironment=" + quoteUnit("PATH="+s.Path) +
		"\nExecStart=" + strings.Join(words, " ") + "\n\n[Install]\nWantedBy=default.target\n"
}

// quoteUnit returns a word for a unit file (systemd.syntax(7), systemd.service(5)).
func quoteUnit(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(word) + `"`
}
