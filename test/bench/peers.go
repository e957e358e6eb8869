package main

import (
	"os"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/procid"
)

// small compares a program that does nothing, in one and the same image.
func (b *bench) small(rounds int) error {
	if err := b.write("true.yaml", "name: nothing\nimage: docker-archive:busybox.tar\nrun: [\"true\"]\n"); err != nil {
		return err
	}
	bee, err := b.median(rounds, b.bee, "run", "-q", "true.yaml")
	if err != nil {
		return err
	}
	podman, err := b.median(rounds, b.podman("run", "--rm", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--network=host", "bee.bench/busybox:1", "true")...)
	if err != nil {
		return err
	}
	charlie, err := b.median(rounds, "ch-run", "tree", "--", "/bin/true")
	if err != nil {
		return err
	}
	docker, err := b.dockerRun(rounds)
	if err != nil {
		return err
	}
	b.row("`bee run` of `true`, cached image, one host, end to end", bee, "podman run", podman)
	b.row("the same", bee, "docker run", docker)
	b.row("the same", bee, "ch-run", charlie)
	return b.exec(rounds)
}

func (b *bench) podman(args ...string) []string {
	return append([]string{"podman", "--root", b.dir + "/podman", "--runroot", b.dir + "/podman-run", "--cgroup-manager", "cgroupfs", "--runtime", "runc"}, args...)
}

// dockerRun times docker with a daemon of its own, which needs root; as another
// user it takes the daemon that the environment names.
func (b *bench) dockerRun(rounds int) (time.Duration, error) {
	if os.Getuid() == 0 {
		socket := "unix://" + b.dir + "/docker.sock"
		daemon := b.command("dockerd", "-H", socket, "--data-root", b.dir+"/docker", "--exec-root", b.dir+"/docker-exec", "--pidfile", b.dir+"/docker.pid",
			"--bridge=none", "--iptables=false", "--ip6tables=false")
		daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		if err := daemon.Start(); err != nil {
			return 0, err
		}
		defer func() {
			daemon.Process.Signal(syscall.SIGTERM)
			procid.Reap(daemon) // ended by us
			syscall.Unmount(b.dir+"/docker-exec/netns/default", syscall.MNT_DETACH)
		}()
		b.env = append(b.env, "DOCKER_HOST="+socket)
		if _, err := b.until("docker", "version"); err != nil {
			return 0, err
		}
	}
	if _, err := b.do("docker", "load", "-q", "-i", "busybox.tar"); err != nil {
		return 0, err
	}
	return b.median(rounds, "docker", "run", "--rm", "--network=host", "bee.bench/busybox:1", "true")
}

// busybox makes the small image in the forms that all want.
func (b *bench) busybox() error {
	script := `set -e
mkdir -p tree/home tree/mnt/0 tree/bin tree/dev tree/proc tree/sys tree/tmp tree/etc tree/run tree/root
cp "$(command -v busybox)" tree/bin/
for a in sh true sleep cat; do ln -sf busybox tree/bin/$a; done
echo root:x:0:0:root:/root:/bin/sh > tree/etc/passwd; touch tree/etc/group tree/etc/hosts tree/etc/resolv.conf
tar -C tree --owner=0 --group=0 --numeric-owner -cf layer.tar .
`
	if _, err := b.do("sh", "-c", script); err != nil {
		return err
	}
	if _, err := b.do(b.podman("import", "layer.tar", "bee.bench/busybox:1")...); err != nil {
		return err
	}
	_, err := b.do(b.podman("save", "-o", "busybox.tar", "bee.bench/busybox:1")...)
	return err
}

// exec compares the start of a process in a container that runs.
func (b *bench) exec(rounds int) error {
	if _, err := b.do(b.bee, "run", "-q", "-d", "sleep.yaml"); err != nil {
		return err
	}
	defer b.do(b.bee, "stop", "--all") //nolint:errcheck // the directory goes anyway
	if _, err := b.until(b.bee, "exec", "sleeper", "--", "true"); err != nil {
		return err
	}
	bee, err := b.median(rounds, b.bee, "exec", "sleeper", "--", "true")
	if err != nil {
		return err
	}
	if _, err := b.do(b.podman("run", "-d", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--network=host", "--name", "sleeper", "bee.bench/busybox:1", "sleep", "600")...); err != nil {
		return err
	}
	defer b.do(b.podman("rm", "-f", "-t", "0", "sleeper")...) //nolint:errcheck // see above
	podman, err := b.median(rounds, b.podman("exec", "sleeper", "true")...)
	if err != nil {
		return err
	}
	b.row("`bee exec` of `true` in a running container", bee, "podman exec", podman)
	return nil
}
