package main

import (
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// routes are those to the hosts named far and long. Bee makes several connections to both;
// those to far have what the line carries between them.
func routes() map[string]route {
	return map[string]route{"far": {25 * time.Millisecond, 200_000_000 / 8, false}, "long": {50 * time.Millisecond, 1_000_000_000 / 8, true}}
}

// sshHosts starts an sshd of this machine, which an ssh reaches as near, and as far and
// long over emulated ways; it is the program whose path it gives.
func (b *bench) sshHosts() (ssh string, stop func(), err error) {
	dir := filepath.Join(b.dir, "ssh")
	addr, err := freeAddress()
	if err != nil {
		return "", nil, err
	}
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
	config := ""
	for host, w := range routes() {
		l, err := w.listen(addr.String()) // until this program ends
		if err != nil {
			return "", nil, err
		}
		config += fmt.Sprintf("Host %s\n  Port %d\n", host, l.Addr().(*net.TCPAddr).Port)
	}
	config += fmt.Sprintf(`Host *
  HostName 127.0.0.1
  Port %[1]d
  HostKeyAlias bench
  IdentityFile %[2]s/user
  UserKnownHostsFile %[2]s/known
  StrictHostKeyChecking yes
  BatchMode yes
`, addr.Port, dir)
	ssh = filepath.Join(dir, "ssh")
	if err := b.write("ssh/config", config); err != nil {
		return "", nil, err
	}
	if err := core.WriteProgram(ssh, fmt.Appendf(nil, "#!/bin/sh\nexec %s -F %s/config \"$@\"\n", client, dir), 0o755); err != nil {
		return "", nil, err
	}
	stop, err = b.serve(sshd, "-D", "-f", "/dev/null", "-p", fmt.Sprint(addr.Port), "-h", dir+"/host", "-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile="+dir+"/user.pub",
		"-o", "SetEnv=XDG_CACHE_HOME="+dir+"/cache", "-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none")
	if err != nil {
		return "", nil, err
	}
	if _, err := b.until(ssh, "near", "true"); err != nil {
		stop()
		return "", nil, err
	}
	return ssh, stop, nil
}
