package qemu

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// ChooseShareServer gives a command for Share.Server that works here; binary is
// BEE's. It is the virtiofsd that belongs to QEMU up to 7.2: the host's, or the
// one that travels in a guest image's tree ("": none). Its successor, written
// again, cannot be used: it either has guests see what others wrote a second late,
// or forbids them to map files that they share.
func ChooseShareServer(binary, tree string) ([]string, error) {
	command := []string{binary, ServerCommand}
	if own := hostsVirtiofsd(command); own != "" {
		command = append(command, own)
	} else if command = BundledShareServer(binary, tree); command == nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "find virtiofsd", Err: errors.New("there is none of QEMU 7.2 or older"), Remedy: "The guest image that `bee vm build` makes carries one."}
	}
	if err := tryShareServer(command); err != nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "try virtiofsd", Err: err}
	}
	return command, nil
}

// BundledShareServer is the command of the one in a guest image's tree, or nil.
func BundledShareServer(binary, tree string) []string {
	dir := filepath.Join(tree, "qemu")
	if _, err := os.Stat(filepath.Join(dir, "virtiofsd")); tree == "" || err != nil {
		return nil
	}
	return []string{binary, ServerCommand, filepath.Join(dir, "loader"), "--library-path", filepath.Join(dir, "lib"), filepath.Join(dir, "virtiofsd")}
}

// hostsVirtiofsd is where this host has one, or "". Even its version it reports
// nobody who cannot drop his groups, so command starts it.
func hostsVirtiofsd(command []string) string {
	for _, file := range []string{"/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd"} {
		// Its successor says no "version".
		if out, err := exec.Command(command[0], append(command[1:], file, "--version")...).Output(); err == nil && strings.HasPrefix(string(out), "virtiofsd version ") { //nolint:noctx // it waits for nothing
			return file
		}
	}
	return ""
}

// ShareServer serves a directory of the host to one machine by virtiofs.
type ShareServer struct {
	*Process
	// Socket is the connection for the machine.
	Socket *os.File
}

// serverFD is the number in a server of the socket that it listens on.
const serverFD = "3"

// dirFD is the number in a server of a directory that it inherits.
const dirFD = "4"

// serve starts the server of a share.
func (s Share) serve() (*ShareServer, error) {
	if s.Dir == nil {
		return StartShareServer(s.Server, s.Path)
	}
	return StartShareServer(s.Server, "/proc/self/fd/"+dirFD+"/.", s.Dir) // which is no link, as virtiofsd wants
}

// StartShareServer starts a server by BEE's binary, ServerCommand and the
// command of virtiofsd. The process runs as the user, to whom what guests write
// belongs. It ends when this process does, or when its connection is closed.
func StartShareServer(command []string, dir string, inherited ...*os.File) (*ShareServer, error) {
	place, err := fsutil.TempDir("", "bee-share-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(place)
	path := filepath.Join(place, "socket")
	theirs, err := wire.ListenFile(path)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	c, err := wire.DialUnix(context.Background(), path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	socket, err := c.(*net.UnixConn).File() // what a dialled Unix socket is
	if err != nil {
		return nil, err
	}
	p, err := run(slices.Concat(command, serverOptions(dir)), append([]*os.File{theirs}, inherited...), ownNamespace(), "")
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("start virtiofsd: %w", err)
	}
	return &ShareServer{p, socket}, nil
}

// serverOptions are virtiofsd's. Files are cached in guests, or they could not
// be mapped, but what is known of a file holds for no time: before each use the
// guest asks whether it has changed.
func serverOptions(dir string) []string {
	dir = strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(dir)
	return []string{"--fd=" + serverFD, "--rlimit-nofile=0", "-o", "sandbox=chroot,cache=auto,timeout=0,xattr,allow_direct_io,source=" + dir}
}

// ownNamespace lets an ordinary user's server do what it requires (chroot,
// capabilities of its own choice), in a user namespace that knows this user
// alone, under the number that he has outside: by that guests see his files.
func ownNamespace() *syscall.SysProcAttr {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{
			unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID, unix.CAP_SETGID, unix.CAP_SETUID, unix.CAP_MKNOD, unix.CAP_SETFCAP,
			unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT,
		},
	}
}

// answerTimeout is how long a server may take to its first word.
const answerTimeout = 10 * time.Second

// tryShareServer reports why no directory can be served here, by serving one.
func tryShareServer(command []string) error {
	dir, err := fsutil.TempDir("", "bee-shared-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := StartShareServer(command, dir)
	if err != nil {
		return err
	}
	defer s.Kill()
	defer s.Socket.Close()
	return s.try()
}

// try returns why a server does not serve.
func (s *ShareServer) try() error {
	c, err := net.FileConn(s.Socket)
	if err != nil {
		return err
	}
	defer c.Close()
	// The request for its features, to which it answers from its sandbox.
	const request, version = 1, 1
	var message []byte
	for _, word := range []uint32{request, version, 0} {
		message = binary.LittleEndian.AppendUint32(message, word)
	}
	answer := make([]byte, len(message)+8)
	c.SetDeadline(time.Now().Add(answerTimeout))
	if _, err = c.Write(message); err == nil {
		_, err = io.ReadFull(c, answer)
	}
	if err != nil || binary.LittleEndian.Uint32(answer) != request {
		s.Kill()
		return fmt.Errorf("virtiofsd does not answer: %s", cmp.Or(s.LastOutput(), fmt.Sprint(err)))
	}
	return nil
}
