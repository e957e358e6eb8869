package rootless

import (
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/runtime/command"
)

// writeEtc makes the caller known inside: names for its ids, of the hosts of
// the run, and the host's resolver. The files are in the container's own
// layer; the image stays as it is.
func (s *setup) writeEtc(root string) error {
	a := s.User
	a.UID, a.GID = os.Getuid(), os.Getgid()
	if err := addAccount(root, a, valueOf(s.Env, "HOME")); err != nil {
		return err
	}
	hosts := "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
	if raw, err := os.ReadFile("/etc/hosts"); err == nil {
		hosts = string(raw)
	}
	hosts = strings.TrimRight(hosts, "\n") + "\n" + strings.Join(s.Hosts, "\n") + "\n"
	if err := write(root, "/etc/hosts", hosts); err != nil {
		return err
	}
	if raw, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		if err := write(root, "/etc/resolv.conf", string(raw)); err != nil {
			return err
		}
	}
	if s.Hostname != "" {
		return write(root, "/etc/hostname", s.Hostname+"\n")
	}
	return nil
}

// addAccount adds an account to the databases, unless they have its ids.
func addAccount(root string, a core.Account, home string) error {
	passwd, group, err := command.Accounts(root)
	if err != nil {
		return err
	}
	newPasswd, newGroup := command.Databases(passwd, group, a, home)
	if newPasswd != passwd {
		err = write(root, "/etc/passwd", newPasswd)
	}
	if err == nil && newGroup != group {
		err = write(root, "/etc/group", newGroup)
	}
	return err
}

func write(root, path, text string) error {
	p, err := inside(root, path, false)
	if err != nil {
		return err
	}
	// Not in place: the image's file may be read-only, or a hard link.
	if err := os.Remove(p); err != nil {
		return err
	}
	return os.WriteFile(p, []byte(text), 0o644)
}

func valueOf(env []string, key string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, key+"="); ok {
			value = v
		}
	}
	return value
}
