package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// The way to the host named far, each direction.
const (
	farDelay = "25ms"
	farRate  = 200_000_000 / 8
)

// sshHosts starts an sshd of this machine, which an ssh reaches as near, and as far
// over an emulated way; it is the program whose path it gives.
func (b *bench) sshHosts() (ssh string, stop func(), err error) {
	dir := filepath.Join(b.dir, "ssh")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr := l.Addr().(*net.TCPAddr) //nolint:forcetypeassert // what Listen gives
	l.Close()
	script := `set -e
mkdir ssh; cd ssh
ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f user
[ $(id -u) != 0 ] || mkdir -p /run/sshd
echo "bench $(cat host.pub)" > known
command -v sshd || echo /usr/sbin/sshd; command -v ssh
`
	out, err := b.do("sh", "-c", script)
	if err != nil {
		return "", nil, err
	}
	var sshd, client string
	if _, err := fmt.Sscan(out, &sshd, &client); err != nil {
		return "", nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	config := fmt.Sprintf(`Host far
  ProxyCommand %s %s %s %s %d
Host *
  HostName 127.0.0.1
  Port %d
  HostKeyAlias bench
  IdentityFile %[7]s/user
  UserKnownHostsFile %[7]s/known
  StrictHostKeyChecking yes
  BatchMode yes
`, self, wayArg, addr, farDelay, farRate, addr.Port, dir)
	ssh = filepath.Join(dir, "ssh")
	if err := b.write("ssh/config", config); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(ssh, fmt.Appendf(nil, "#!/bin/sh\nexec %s -F %s/config \"$@\"\n", client, dir), 0o755); err != nil {
		return "", nil, err
	}
	c := b.command(sshd, "-D", "-f", "/dev/null", "-p", fmt.Sprint(addr.Port), "-h", dir+"/host", "-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile="+dir+"/user.pub",
		"-o", "SetEnv=XDG_CACHE_HOME="+dir+"/cache", "-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { c.Process.Kill(); c.Wait() } //nolint:errcheck // it ends with us
	if err := b.until(ssh, "near", "true"); err != nil {
		stop()
		return "", nil, err
	}
	return ssh, stop, nil
}
