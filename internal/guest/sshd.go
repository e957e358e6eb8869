package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
)

const (
	sshDir    = dir + "/ssh"
	sshConfig = `HostKey ` + sshDir + `/host_key
AuthorizedKeysFile ` + sshDir + `/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
PrintMotd no
LogLevel ERROR
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
`
)

// runSSHD serves one connection of ssh on the standard streams: the keys come
// first, as one line of JSON. There is no daemon, and nothing listens.
func runSSHD() error {
	var keys api.SSHKeys
	line, err := readLine(os.Stdin)
	if err == nil {
		err = json.Unmarshal(line, &keys)
	}
	if err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	for _, d := range []string{sshDir, "/run/sshd"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	c, err := readConfig()
	if err != nil {
		return err
	}
	program, err := exec.LookPath("sshd")
	if err != nil {
		return errors.New("this guest image has no sshd: build one with the package openssh-server")
	}
	config := filepath.Join(sshDir, "config")
	for name, file := range map[string]struct {
		text string
		mode os.FileMode
	}{filepath.Join(sshDir, "host_key"): {keys.Host, 0o600}, filepath.Join(sshDir, "authorized_keys"): {keys.Authorized, 0o644}, config: {sshConfig + setEnv(environment(c)), 0o644}} {
		if err := fsutil.WriteFile(name, []byte(file.text), file.mode); err != nil { // others may connect now
			return err
		}
	}
	return syscall.Exec(program, []string{program, "-i", "-e", "-f", config}, os.Environ())
}

// readLine reads no byte more than a line.
func readLine(r io.Reader) ([]byte, error) {
	const most = 64 << 10
	var line []byte
	for b := make([]byte, 1); len(line) < most; {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			return line, nil
		}
		line = append(line, b[0])
	}
	return nil, errors.New("the line is too long")
}
