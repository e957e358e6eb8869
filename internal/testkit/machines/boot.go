package machines

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
)

// prepare makes what all machines have.
func (p *Park) prepare() error {
	for _, dir := range []string{"bin", "machines", "routes", "scratch", "worlds"} {
		if err := os.Mkdir(filepath.Join(p.dir, dir), 0o700); err != nil {
			return err
		}
	}
	// What a start script may change of a machine, it changes here of nothing.
	for _, program := range []string{"ip", "iptables", "sysctl", "restorecon", "useradd", "pkill", "sync"} {
		if err := p.program(program, "exit 0"); err != nil {
			return err
		}
	}
	if err := p.clocks(); err != nil {
		return err
	}
	if err := p.program("systemctl", "exit 1"); err != nil { // as where another init runs
		return err
	}
	for _, program := range []string{"poweroff", "shutdown", "halt"} {
		if err := p.program(program, `: >"$MACHINE/poweroff"`); err != nil {
			return err
		}
	}
	// Machines have an /etc of their own, whole, so that nothing leads back to this machine's.
	etc := filepath.Join(p.dir, "etc")
	exec.Command("cp", "-R", "-P", "/etc", etc).Run() //nolint:errcheck // what this user may not read is left out
	if err := os.RemoveAll(filepath.Join(etc, "ssh")); err != nil {
		return err
	}
	// The image is one of a machine that was rented before, and taken back.
	old := filepath.Join(etc, "bee")
	return errors.Join(os.MkdirAll(filepath.Join(etc, "ssh"), 0o755), os.MkdirAll(old, 0o755), os.WriteFile(filepath.Join(old, "notice"), []byte("1\n"), 0o644))
}

// clocks makes the machines' clock, which a test may set forward, and a sleep that does not sleep over that.
func (p *Park) clocks() error {
	ahead := filepath.Join(p.dir, "ahead")
	if err := os.WriteFile(ahead, []byte("0\n"), 0o644); err != nil {
		return err
	}
	date, err := exec.LookPath("date")
	if err != nil {
		return err
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return err
	}
	return errors.Join(
		p.program("date", fmt.Sprintf("[ \"$*\" = +%%s ] || exec %s \"$@\"\necho $(($(%s +%%s) + $(cat %s)))", date, date, ahead)),
		p.program("sleep", "exec "+sleep+" 1"),
	)
}

// Forward sets the clocks of all machines forward.
func (p *Park) Forward(d time.Duration) error {
	next := filepath.Join(p.dir, "ahead.next") // renamed: a machine reads one or the other
	if err := os.WriteFile(next, fmt.Appendln(nil, int(d.Seconds())), 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(p.dir, "ahead"))
}

func (p *Park) program(name, script string) error {
	return core.WriteProgram(filepath.Join(p.dir, "bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755)
}

// of is the directory of a machine here.
func (b *Batch) of(n int) string { return filepath.Join(b.park.Files(), b.ids[n]) }

// live is the life of the machines of a batch.
func (b *Batch) live(names []string, script string) {
	t, ended := b.park.t, b.park.ended
	err := b.boot(names, script)
	if err != nil && ended.Err() == nil {
		t.Errorf("boot machines: %v", err)
	}
	if b.hosts != nil {
		defer emulate.Destroy(context.Background(), b.world) //nolint:errcheck // the test ends anyway
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	off, gone := make([]bool, len(b.ids)), make([]bool, len(b.ids))
	for left := len(b.ids); left > 0; {
		select {
		case <-ended.Done():
			return
		case n := <-b.end:
			if gone[n] {
				continue
			}
			if b.hosts != nil {
				if err := b.hosts.Kill(ended, n); err != nil && ended.Err() == nil {
					t.Errorf("end machine %s: %v", b.ids[n], err)
				}
			}
			gone[n] = true
			b.events.Ended(n)
			left--
		case <-look.C:
			for n := range b.ids {
				if off[n] || gone[n] {
					continue
				}
				if _, err := os.Stat(filepath.Join(b.of(n), "poweroff")); err == nil {
					off[n] = true
					b.events.PoweredOff(n)
				}
			}
		}
	}
}

// boot starts the machines of a batch, and has each run its start script.
func (b *Batch) boot(names []string, script string) error {
	p := b.park
	self, err := os.Executable()
	if err != nil {
		return err
	}
	spec := emulate.Spec{Dir: b.world, Binary: self}
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return err
	}
	for n, name := range names {
		mounts, err := b.install(n, script)
		if err != nil {
			return err
		}
		spec.Hosts = append(spec.Hosts, emulate.HostSpec{Hostname: name, Mounts: mounts, Service: netip.MustParseAddr(Metadata)})
	}
	if p.bastion != "" {
		spec.Hosts = append(spec.Hosts, emulate.HostSpec{Hostname: "bastion", Mounts: []emulate.Mount{{Source: p.bastionFiles(), Target: "/etc"}}})
	}
	if b.hosts, err = emulate.Start(p.ended, spec); err != nil {
		b.hosts = nil
		return err
	}
	close(b.booted)
	if p.bastion != "" {
		if err := b.startBastion(); err != nil {
			return err
		}
	}
	for n := range names {
		if err := b.bootOne(n); err != nil {
			return err
		}
	}
	return nil
}

// install makes the files of a machine: its image. What is in the cache of one machine is in that of
// all, as in an image where bee has been before: that bee brings its binary is seen once.
func (b *Batch) install(n int, script string) ([]emulate.Mount, error) {
	p, dir := b.park, b.of(n)
	scratch := filepath.Join(dir, "scratch")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(scratch, 0o700)); err != nil {
		return nil, err
	}
	etc := filepath.Join(dir, "etc")
	if out, err := exec.Command("cp", "-R", "-P", filepath.Join(p.dir, "etc"), etc).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	config := strings.Join([]string{
		"Port " + Port, "HostKey /etc/ssh/ssh_host_ed25519_key", "HostKey /etc/ssh/ssh_host_ecdsa_key", "AuthorizedKeysFile none",
		"PermitRootLogin prohibit-password", "StrictModes no", "UsePAM no", "PidFile none", "MaxStartups 100", "KexAlgorithms curve25519-sha256",
		"SetEnv XDG_CACHE_HOME=" + filepath.Join(p.dir, "cache") + " BEE_CACHE=" + filepath.Join(p.dir, "cache", "bee") + " SHLVL=1",
	}, "\n") + "\n"
	return []emulate.Mount{{Source: etc, Target: "/etc"}, {Source: scratch, Target: p.Scratch()}}, errors.Join(
		os.WriteFile(filepath.Join(etc, "ssh", "sshd_config"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(dir, "user-data"), []byte(script), 0o600),
	)
}

// bootOne runs a machine's start script, and then its sshd.
func (b *Batch) bootOne(n int) error {
	p, dir := b.park, b.of(n)
	console, err := os.Create(filepath.Join(dir, "console"))
	if err != nil {
		return err
	}
	defer console.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		return err
	}
	b.mu.Lock()
	b.consoles[n] = console.Name()
	b.mu.Unlock()
	foreign := func(e string) bool { return strings.HasPrefix(e, "AWS_") || strings.HasPrefix(e, "OS_") }
	env := append(slices.DeleteFunc(os.Environ(), foreign), "PATH="+filepath.Join(p.dir, "bin")+":"+os.Getenv("PATH"), "MACHINE="+dir)
	if err := b.startMetadata(n); err != nil {
		return err
	}
	exit, err := b.hosts.Run(p.ended, emulate.Command{Host: n, Path: "/bin/sh", Argv: []string{"sh", filepath.Join(dir, "user-data")}, Env: env}, null, console, console)
	if err != nil {
		return err
	}
	if exit.Code != 0 { // as on a machine: it runs, and does not answer
		if _, err := fmt.Fprintf(console, "the start script ended with %d\n", exit.Code); err != nil {
			return err
		}
	} else if _, err = b.hosts.Launch(p.ended, emulate.Command{Host: n, Path: sshd, Argv: []string{sshd, "-D", "-e", "-f", "/etc/ssh/sshd_config"}, Env: env, Log: console.Name()}); err != nil {
		return err
	}
	b.events.Running(n)
	return nil
}

// dial is an ssh ProxyCommand to a machine.
func dial(dir, address string) error {
	route, err := os.ReadFile(filepath.Join(dir, "routes", filepath.Base(address)))
	if err != nil {
		return fmt.Errorf("no route to host: %w", err)
	}
	world, to, _ := strings.Cut(string(route), "\n")
	ctx := context.Background()
	c, err := emulate.Open(ctx, world)
	if err != nil {
		return err
	}
	return c.Relay(ctx, to, os.Stdin, os.Stdout)
}
