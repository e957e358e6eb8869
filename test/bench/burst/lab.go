package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
)

// The hosts: the submitting machine, that of the I/O process, its clients, and one behind the line.
const (
	home = iota
	ioHost
	firstClient
	farHost = firstClient + clients
	clients = 4
)

// The network, in bits per second. The line has half of its round trip in each direction.
const (
	linkRate  = 200_000_000
	lineRate  = 40_000_000
	roundTrip = 40 * time.Millisecond
)

type options struct{ bee, image, dir string }

// lab is a set of emulated hosts on which ssh works, with bee on one of them.
type lab struct {
	options
	hosts *emulate.Client
	env   []string
}

func newLab(ctx context.Context, o options) (*lab, error) {
	l := &lab{options: o}
	for _, path := range []*string{&l.bee, &l.image, &l.dir} {
		var err error
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}
	spec := emulate.Spec{Dir: l.path("emulated"), LinkRate: linkRate}
	for host := range farHost + 1 {
		spec.Hosts = append(spec.Hosts, emulate.HostSpec{Hostname: hostname(host)})
	}
	spec.Hosts[farHost].Line = &emulate.Line{Rate: lineRate, Delay: roundTrip / 2}
	var err error
	if l.hosts, err = emulate.Start(ctx, spec); err != nil {
		return nil, err
	}
	if err := l.logins(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func hostname(host int) string {
	switch host {
	case home:
		return "home"
	case farHost:
		return "far"
	}
	return fmt.Sprintf("h%d", host)
}

func (l *lab) path(names ...string) string {
	return filepath.Join(append([]string{l.dir}, names...)...)
}

func (l *lab) addr(host, port int) string {
	return net.JoinHostPort(l.hosts.Hosts()[host].Addr, fmt.Sprint(port))
}

// close ends the hosts, and everything on them.
func (l *lab) close() {
	if err := emulate.Destroy(context.Background(), l.path("emulated")); err != nil {
		fmt.Fprintln(os.Stderr, "burst:", err)
	}
}

// prepare makes directories, keys and the program that measures on the hosts.
func (l *lab) prepare(ctx context.Context) error {
	for _, name := range []string{"emulated", "bin", "tool", "meet", "far", "scratch", "bucket", "mnt"} {
		if err := os.MkdirAll(l.path(name), 0o700); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd's own chroot
			return err
		}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = core.WriteProgram(l.program(), self, 0o755)
	}
	for _, key := range []string{"host", "user"} {
		if err == nil {
			var out []byte
			if out, err = exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", l.path(key)).CombinedOutput(); err != nil {
				err = fmt.Errorf("make a key: %w: %s", err, out)
			}
		}
	}
	return err
}

// program is that which measures, as the hosts have it.
func (l *lab) program() string { return l.path("tool", "burst") }

// logins starts sshd on all hosts, and configures their ssh.
func (l *lab) logins(ctx context.Context) error {
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd" // not every user has that directory in PATH
	}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		return err
	}
	path := l.path("bin") + ":" + os.Getenv("PATH")
	public, err := os.ReadFile(l.path("host.pub"))
	if err != nil {
		return err
	}
	config, names := "", []string{}
	for host := range farHost + 1 {
		config += fmt.Sprintf("Host %s\n  HostName %s\n", hostname(host), l.hosts.Hosts()[host].Addr)
		if host == home {
			continue
		}
		if host != farHost {
			names = append(names, hostname(host))
		}
		if err := l.launch(ctx, host, sshd, "-D", "-e", "-f", "/dev/null", "-p", "2222", "-h", l.path("host"), "-o", "AuthorizedKeysFile="+l.path("user.pub"),
			"-o", "SetEnv=PATH="+path+" XDG_CACHE_HOME="+l.path("cache", hostname(host))+" SHLVL=1", "-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none", "-o", "MaxStartups=100", "-o", "Subsystem=sftp internal-sftp"); err != nil {
			return err
		}
	}
	config += fmt.Sprintf("Host *\n  Port 2222\n  HostKeyAlias bench\n  IdentityFile %s\n  UserKnownHostsFile %s\n  StrictHostKeyChecking yes\n  BatchMode yes\n", l.path("user"), l.path("known"))
	sites := fmt.Sprintf("sites:\n  - {name: rack, provider: ssh, hosts: [%s], scratch: %s, slots: 4}\n", strings.Join(names, ", "), l.path("scratch"))
	// Nothing of the user's own comes in between: of two variables of a name, programs take the first.
	l.env = append([]string{"PATH=" + path, "HOME=" + os.Getenv("HOME"), "BEE_STATE=" + l.path("state"), "BEE_SITES=" + l.path("sites.yaml"), "XDG_CACHE_HOME=" + l.path("cache", "home")},
		bucketEnv("http://"+l.addr(farHost, bucketPort))...)
	err = errors.Join(
		os.WriteFile(l.path("config"), []byte(config), 0o600),
		os.WriteFile(l.path("known"), append([]byte("bench "), public...), 0o600),
		os.WriteFile(l.path("sites.yaml"), []byte(sites), 0o600),
		core.WriteProgram(l.path("bin", "ssh"), fmt.Appendf(nil, "#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, l.path("config")), 0o755))
	for host := ioHost; host <= farHost && err == nil; host++ {
		_, err = l.until(ctx, func() (string, error) { return l.on(ctx, home, "ssh", hostname(host), "true") })
	}
	return err
}

// until repeats something until it succeeds, for 20 s at most.
func (l *lab) until(ctx context.Context, do func() (string, error)) (string, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		out, err := do()
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return out, err
		}
		if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
			return out, err
		}
	}
}

// launch starts a server on a host, which ends with it.
func (l *lab) launch(ctx context.Context, host int, argv ...string) error {
	env := l.env
	if env == nil {
		env = os.Environ()
	}
	_, err := l.hosts.Launch(ctx, emulate.Command{Host: host, Argv: argv, Env: env, Log: l.path(hostname(host) + ".log")})
	return err
}

// on runs a program on a host, and returns what it prints.
func (l *lab) on(ctx context.Context, host int, argv ...string) (string, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", err
	}
	defer null.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer out.Close()
	errs, err := os.CreateTemp(l.dir, "stderr")
	if err != nil {
		theirs.Close()
		return "", err
	}
	defer func() {
		errs.Close()
		os.Remove(errs.Name())
	}()
	printed := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(io.LimitReader(out, 16<<20)) // a daemon that keeps the pipe is no error
		printed <- all
	}()
	exit, err := l.hosts.Run(ctx, emulate.Command{Host: host, Argv: argv, Env: l.env, Dir: l.dir}, null, theirs, errs)
	theirs.Close()
	if err != nil {
		return "", err
	}
	text := ""
	select {
	case all := <-printed:
		text = string(bytes.TrimSpace(all))
	case <-time.After(5 * time.Second):
		return "", fmt.Errorf("%s: something keeps its output open", strings.Join(argv, " "))
	}
	if exit.Code != 0 {
		said, _ := os.ReadFile(errs.Name()) // "" says nothing
		return text, fmt.Errorf("%s on %s: exit code %d: %s%s", strings.Join(argv, " "), hostname(host), exit.Code, said, text)
	}
	return text, nil
}

// load is the machine's load over the last minute: others may compute beside.
func load() string {
	raw, _ := os.ReadFile("/proc/loadavg") // "" reports nothing
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
