package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/wire"
)

// switchesArg has this program be the switches between endpoints of another
// process, as it is with hypervisors, so that their processor time is known.
const switchesArg = "switches"

// mesh is which switches there are: of how many hosts, joined by how many connections,
// encrypted or not, with how many guests of each, and how these are attached.
type mesh struct {
	Kind, Attached       string
	Hosts, Guests, Lanes int
	Secure               bool
}

// make starts the switches in a process of their own, joined by TCP as between hosts.
func (m mesh) make() ([]end, func(), error) {
	order, err := json.Marshal(m)
	if err != nil {
		return nil, nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "endpoints")
	c := exec.Command("/proc/self/exe", switchesArg, string(order))
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{theirs}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = c.Start()
	theirs.Close()
	if err != nil {
		unix.Close(pair[0])
		return nil, nil, err
	}
	child.Store(int64(c.Process.Pid))
	var ends []end
	undo := func() {
		closeAll(ends)
		unix.Close(pair[0])
		c.Process.Kill()
		c.Wait() //nolint:errcheck // we killed it
		child.Store(0)
	}
	for range m.Hosts * m.Guests {
		e, err := m.receiveEnd(pair[0])
		if err != nil {
			undo()
			return nil, nil, err
		}
		ends = append(ends, e)
	}
	return ends, undo, nil
}

func (m mesh) receiveEnd(from int) (end, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) == 0 {
		return nil, errors.Join(errors.New("the switches ended"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "guest")
	defer file.Close()
	c, err := net.FileConn(file)
	if err == nil && m.Attached == fabric.Rings {
		return newRings(c.(*net.UnixConn)) //nolint:forcetypeassert // that is what it is
	}
	return packets{c}, err
}

// beSwitches sends the endpoints' sockets, and ends by being killed.
func beSwitches(order string) error {
	var m mesh
	if err := json.Unmarshal([]byte(order), &m); err != nil {
		return err
	}
	debug.SetGCPercent(40) // as a node does
	files, err := m.join()
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
			return err
		}
	}
	select {}
}

// join gives the endpoints' sockets of all guests.
func (m mesh) join() ([]*os.File, error) {
	authority, err := wire.NewAuthority()
	if err != nil {
		return nil, err
	}
	var all []*fabric.Fabric
	var files []*os.File
	for host := range m.Hosts {
		f := fabric.New(m.Kind, m.Attached, fabric.Place{Host: host, Hosts: m.Hosts, Guests: m.Guests}, slog.New(slog.DiscardHandler))
		all = append(all, f)
		attach := f.Attach
		if m.Attached == fabric.Rings {
			attach = func(rank int) (*os.File, error) { return attachRings(f, rank) }
		}
		for g := range m.Guests {
			file, err := attach(host*m.Guests + g)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		for _, above := range fabric.Above(m.Kind, host) {
			for lane := range m.Lanes {
				a, b, err := connect(authority, m.Secure)
				if err != nil {
					return nil, err
				}
				if _, err := f.Link(above, lane, a); err != nil {
					return nil, err
				}
				if _, err := all[above].Link(host, lane, b); err != nil {
					return nil, err
				}
			}
		}
	}
	return files, nil
}

// attachRings gives the hypervisor's end of a connection to the port of a guest.
func attachRings(f *fabric.Fabric, rank int) (*os.File, error) {
	l, err := net.Listen("unix", fmt.Sprintf("@bee-frames-%d-%d", os.Getpid(), rank))
	if err != nil {
		return nil, err
	}
	if err := f.AttachRings(rank, l); err != nil {
		return nil, err
	}
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)) //nolint:forcetypeassert // that is what it is
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.File()
}

// connect gives both ends of a TCP connection, by mutual TLS if secure.
func connect(authority *wire.Authority, secure bool) (net.Conn, net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	b, err := l.Accept()
	if err != nil || !secure {
		return a, b, err
	}
	var ids []*wire.Identity
	for _, name := range []string{"node-0", "node-1"} {
		cert, key, err := authority.Issue(name)
		if err != nil {
			return nil, nil, err
		}
		id, err := wire.NewIdentity(authority.Certificate(), cert, key)
		if err != nil {
			return nil, nil, err
		}
		ids = append(ids, id)
	}
	server, client := ids[0].SecureServer(b, "frames"), ids[1].SecureClient(a, "node-0", "frames")
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	return client, server, errors.Join(client.Handshake(), <-shaken)
}
