package rootless

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// writeEtc makes the caller known inside: names for its ids, of the hosts of
// the run, and the host's resolver. The files are in the container's own
// layer; the image stays as it is.
func (s *setup) writeEtc(root string) error {
	uid, gid := os.Getuid(), os.Getgid()
	home := "/"
	if h := valueOf(s.Env, "HOME"); h != "" {
		home = h
	}
	if err := addLine(root, "/etc/passwd", 2, uid, fmt.Sprintf("%s:x:%d:%d:%s:%s:/bin/sh", s.User.Name, uid, gid, s.User.Name, home)); err != nil {
		return err
	}
	if err := addLine(root, "/etc/group", 2, gid, fmt.Sprintf("%s:x:%d:", s.User.Name, gid)); err != nil {
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

// addLine appends a line to a database unless one of its lines has the id.
func addLine(root, path string, field, id int, line string) error {
	p, err := inside(root, path, false)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	for _, l := range strings.Split(string(raw), "\n") {
		if f := strings.Split(l, ":"); len(f) > field && f[field] == strconv.Itoa(id) {
			return nil
		}
	}
	text := strings.TrimRight(string(raw), "\n")
	if text != "" {
		text += "\n"
	}
	return write(root, path, text+line+"\n")
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
