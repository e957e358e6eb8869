package ec2server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/emulate"
)

// sshPort is where the machines' sshd listens: only root could have 22.
const sshPort = "2222"

// prepare makes what all machines have.
func (s *Server) prepare() error {
	for _, dir := range []string{"bin", "machines", "private", "worlds"} {
		if err := os.Mkdir(filepath.Join(s.dir, dir), 0o700); err != nil {
			return err
		}
	}
	// What a start script may change of a machine, it changes here of nothing.
	for _, program := range []string{"ip", "iptables", "sysctl", "restorecon", "useradd", "pkill", "sync"} {
		if err := s.program(program, "exit 0"); err != nil {
			return err
		}
	}
	if err := s.clocks(); err != nil {
		return err
	}
	if err := s.program("systemctl", "exit 1"); err != nil { // as where another init runs
		return err
	}
	for _, program := range []string{"poweroff", "shutdown", "halt"} {
		if err := s.program(program, `: >"$MACHINE/poweroff"`); err != nil {
			return err
		}
	}
	// Machines have an /etc of their own, whole, so that nothing leads back to this machine's.
	etc := filepath.Join(s.dir, "etc")
	exec.Command("cp", "-R", "-P", "/etc", etc).Run() //nolint:errcheck // what this user may not read is left out
	if err := os.RemoveAll(filepath.Join(etc, "ssh")); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(etc, "ssh"), 0o755)
}

// clocks makes the machines' clock, which a test may set forward, and a sleep that does not sleep over that.
func (s *Server) clocks() error {
	ahead := filepath.Join(s.dir, "ahead")
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
		s.program("date", fmt.Sprintf("[ \"$*\" = +%%s ] || exec %s \"$@\"\necho $(($(%s +%%s) + $(cat %s)))", date, date, ahead)),
		s.program("sleep", "exec "+sleep+" 1"),
	)
}

// Forward sets the clocks of all machines forward.
func (s *Server) Forward(d time.Duration) error {
	next := filepath.Join(s.dir, "ahead.next") // renamed: a machine reads one or the other
	if err := os.WriteFile(next, fmt.Appendln(nil, int(d.Seconds())), 0o644); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(s.dir, "ahead"))
}

func (s *Server) program(name, script string) error {
	return os.WriteFile(filepath.Join(s.dir, "bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755)
}

// dirOf is the directory of a machine here.
func (s *Server) dirOf(i *instance) string { return filepath.Join(s.dir, "machines", i.address) }

// world is the life of the machines of a launch.
func (s *Server) world(l *launch, script string) {
	hosts, err := s.boot(l, script)
	if err != nil {
		s.t.Errorf("boot machines: %v", err)
	}
	if hosts != nil {
		defer emulate.Destroy(context.Background(), filepath.Join(s.dir, "worlds", l.machines[0].id)) //nolint:errcheck // the test ends anyway
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for left := len(l.machines); left > 0; {
		select {
		case <-s.ended.Done():
			return
		case i := <-l.end:
			if hosts != nil {
				if err := hosts.Kill(s.ended, i.index); err != nil && s.ended.Err() == nil {
					s.t.Errorf("end machine %s: %v", i.id, err)
				}
			}
			s.locked(func() { i.state = terminated })
			left--
		case <-look.C:
			for _, i := range l.machines {
				if _, err := os.Stat(filepath.Join(s.dirOf(i), "poweroff")); err == nil {
					s.locked(func() { s.terminate(i, "Client.InstanceInitiatedShutdown: Instance initiated shutdown") })
				}
			}
		}
	}
}

// boot starts the machines of a launch, and has each run its start script.
func (s *Server) boot(l *launch, script string) (*emulate.Client, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec := emulate.Spec{Dir: filepath.Join(s.dir, "worlds", l.machines[0].id), Binary: self}
	if err := os.Mkdir(spec.Dir, 0o700); err != nil {
		return nil, err
	}
	for _, i := range l.machines {
		mounts, err := s.install(i, script)
		if err != nil {
			return nil, err
		}
		own := filepath.Join(s.Scratch(), "bee-"+i.address)
		spec.Hosts = append(spec.Hosts, emulate.HostSpec{
			Hostname: "ip-" + strings.ReplaceAll(i.address, ".", "-"), Hide: s.Scratch(), Keep: own, Mounts: mounts,
		})
	}
	hosts, err := emulate.Start(s.ended, spec)
	if err != nil {
		if s.ended.Err() != nil {
			return nil, nil
		}
		return nil, err
	}
	for n, i := range l.machines {
		err := os.WriteFile(filepath.Join(s.dirOf(i), "route"), []byte(spec.Dir+"\n"+net.JoinHostPort(hosts.Hosts()[n].Addr, sshPort)), 0o600)
		if err == nil {
			err = s.bootOne(hosts, i)
		}
		if err != nil && s.ended.Err() == nil {
			return hosts, err
		}
	}
	return hosts, nil
}

// install makes the files of a machine: its image. What is in the cache of one machine is in that of
// all, as in an image where bee has been before: that bee brings its binary is seen once.
func (s *Server) install(i *instance, script string) ([]emulate.Mount, error) {
	dir := s.dirOf(i)
	err := errors.Join(os.Mkdir(dir, 0o700), os.MkdirAll(filepath.Join(s.Scratch(), "bee-"+i.address), 0o700))
	if err != nil {
		return nil, err
	}
	etc := filepath.Join(dir, "etc")
	if out, err := exec.Command("cp", "-R", "-P", filepath.Join(s.dir, "etc"), etc).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	config := strings.Join([]string{
		"Port " + sshPort, "HostKey /etc/ssh/ssh_host_ed25519_key", "HostKey /etc/ssh/ssh_host_ecdsa_key", "AuthorizedKeysFile none",
		"PermitRootLogin prohibit-password", "StrictModes no", "UsePAM no", "PidFile none", "MaxStartups 100",
		"SetEnv XDG_CACHE_HOME=" + filepath.Join(s.dir, "cache") + " BEE_CACHE=" + filepath.Join(s.dir, "cache", "bee") + " SHLVL=1",
	}, "\n") + "\n"
	return []emulate.Mount{{Source: etc, Target: "/etc"}}, errors.Join(
		os.WriteFile(filepath.Join(etc, "ssh", "sshd_config"), []byte(config), 0o644),
		os.WriteFile(filepath.Join(dir, "user-data"), []byte(script), 0o600),
	)
}

// bootOne runs a machine's start script, and then its sshd.
func (s *Server) bootOne(hosts *emulate.Client, i *instance) error {
	dir := s.dirOf(i)
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
	s.locked(func() { i.console = console.Name() })
	env := append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "AWS_") }), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"), "MACHINE="+dir)
	exit, err := hosts.Run(s.ended, emulate.Command{Host: i.index, Path: "/bin/sh", Argv: []string{"sh", filepath.Join(dir, "user-data")}, Env: env}, null, console, console)
	if err != nil {
		return err
	}
	if exit.Code != 0 { // as on a machine: it runs, and does not answer
		if _, err := fmt.Fprintf(console, "the start script ended with %d\n", exit.Code); err != nil {
			return err
		}
	} else if _, err = hosts.Launch(s.ended, emulate.Command{Host: i.index, Path: sshd, Argv: []string{sshd, "-D", "-e", "-f", "/etc/ssh/sshd_config"}, Env: env, Log: console.Name()}); err != nil {
		return err
	}
	s.locked(func() {
		if i.state == pending {
			i.state = running
		}
	})
	return nil
}

// dial is an ssh ProxyCommand to a machine.
func dial(dir, address string) error {
	route, err := os.ReadFile(filepath.Join(dir, "machines", filepath.Base(address), "route"))
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
