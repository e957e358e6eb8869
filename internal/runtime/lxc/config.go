package lxc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/runtime/overlay"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

// files are what lxc reads and writes of one container, in its state directory.
type files struct {
	// state is where lxc keeps what it has of containers, and config its configuration.
	state, config string
	// mount is where lxc assembles the root.
	mount string
}

func filesIn(dir string) files {
	top := filepath.Join(dir, "lxc")
	return files{state: filepath.Join(top, "state"), config: filepath.Join(top, "config"), mount: filepath.Join(top, "root")}
}

func (f files) remove() error { return fsutil.RemoveAll(filepath.Dir(f.config)) }

// environment is that of lxc, which has its locks in the container's directory.
func (f files) environment() []string {
	return append(os.Environ(), "HOME="+f.state, "XDG_RUNTIME_DIR="+f.state)
}

// withHost is a specification with what the container has of its host's and the image has
// not: /sys, read-only with all below it, resolvers, and its own hosts and accounts.
func withHost(s driver.ContainerSpec) (driver.ContainerSpec, error) {
	hosts, err := command.HostsFile(s)
	if err != nil {
		return s, err
	}
	mounts := []driver.Mount{{Source: "/sys", Target: "/sys", ReadOnly: true}}
	mounts = append(mounts, s.Mounts...)
	mounts = append(mounts, driver.Mount{Source: hosts, Target: "/etc/hosts"})
	if resolvers, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil {
		mounts = append(mounts, driver.Mount{Source: resolvers, Target: "/etc/resolv.conf", ReadOnly: true})
	}
	if s.User == nil { // else the image's own accounts have that user
		accounts, err := writeAccounts(s)
		if err != nil {
			return s, err
		}
		mounts = append(mounts, accounts...)
	}
	s.Mounts = mounts
	return s, nil
}

// writeAccounts writes the image's accounts with the container's own, and returns their mounts.
func writeAccounts(s driver.ContainerSpec) ([]driver.Mount, error) {
	home := ""
	for _, e := range s.Env {
		if h, ok := strings.CutPrefix(e, "HOME="); ok {
			home = h
		}
	}
	passwd, group, _ := command.Accounts(s.Image.Tree) // what cannot be read is none
	passwd, group = command.Databases(passwd, group, command.Account(s), home)
	var mounts []driver.Mount
	for _, f := range []struct{ name, text string }{{"passwd", passwd}, {"group", group}} {
		path := filepath.Join(s.StateDir, f.name)
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return nil, err
		}
		mounts = append(mounts, driver.Mount{Source: path, Target: "/etc/" + f.name})
	}
	return mounts, nil
}

// writeFiles makes the directories of lxc and its configuration, which only the user may read:
// it has the container's environment.
func writeFiles(s driver.ContainerSpec, h command.Host, root overlay.Root) (files, error) {
	f := filesIn(s.StateDir)
	for _, dir := range []string{f.state, f.mount} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return f, err
		}
	}
	text, err := config(s, h, root, f, confinedByAppArmor())
	if err != nil {
		return f, err
	}
	return f, os.WriteFile(f.config, []byte(text), 0o600)
}

// confinedByAppArmor reports whether the kernel has AppArmor, of whose profiles lxc would
// want one that may not be there.
func confinedByAppArmor() bool {
	raw, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(raw), "Y")
}

// config is lxc.container.conf(5) of a container. Namespaces are the host's but for mounts,
// processes, and the name, if it has one of its own.
func config(s driver.ContainerSpec, h command.Host, root overlay.Root, f files, apparmor bool) (string, error) {
	kept := "net ipc user"
	var b strings.Builder
	var broken error
	set := func(key, value string) {
		if strings.ContainsAny(value, "\n\r") {
			broken = &core.Error{Kind: core.Invalid, Op: "configure", Object: fmt.Sprintf("lxc.%s = %q", key, value), Err: errors.New("it has a line break"), Remedy: "Choose names and a scratch directory without line breaks."}
		}
		b.WriteString("lxc." + key + " = " + value + "\n")
	}
	set("rootfs.path", "dir:"+root.Dir)
	set("rootfs.mount", f.mount)
	if s.Hostname != "" {
		set("uts.name", s.Hostname)
	} else {
		kept += " uts"
	}
	set("namespace.keep", kept)
	set("net.0.type", "none")
	set("console.path", "none")
	set("tty.max", "0")
	set("pty.max", "1024") // as Docker
	set("autodev", "1")
	set("mount.auto", "proc:mixed")
	set("no_new_privs", "1")
	if ids(s, h) != "" { // what init needs to map the ids of root: user_namespaces(7); the job has not even that
		set("cap.keep", "setfcap")
	} else {
		set("cap.keep", "none")
	}
	if apparmor {
		set("apparmor.profile", "unconfined")
	}
	set("mount.entry", entry("/dev/shm", "dev/shm", ",create=dir"))
	if !h.NoMqueue {
		set("mount.entry", entry("/dev/mqueue", "dev/mqueue", ",create=dir"))
	}
	for _, d := range h.Devices {
		set("mount.entry", entry(d.Source, strings.TrimPrefix(d.Target, "/"), ",create=file"))
	}
	for i, m := range s.Mounts {
		set("mount.entry", entry(root.Source(i), strings.TrimPrefix(root.Inside(m.Target), "/"), ""))
	}
	for _, e := range s.Env { // of the container's init alone: a line break fits no line
		if strings.Contains(e, "=") && !strings.ContainsAny(e, "\n\r") {
			set("environment", e)
		}
	}
	return b.String(), broken
}

// ids are those that init shall map root to for the container's processes; "": root it is.
func ids(s driver.ContainerSpec, h command.Host) string {
	uid, gid := s.IDs(h.UID, h.GID)
	if uid == 0 && gid == 0 {
		return ""
	}
	return pid1.IDs(uid, gid)
}

// entry is a line of fstab(5).
func entry(source, target, options string) string {
	escape := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`)
	return escape.Replace(source) + " " + escape.Replace(target) + " none rbind" + options + " 0 0"
}
