package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/wire"
)

// switchesArg has this program be the switches between endpoints of another
// process, as it is with hypervisors, so that their processor time is known.
const switchesArg = "switches"

// switches are BEE's own, in a process of their own, joined by TCP as between
// hosts.
func switches(kind string, hosts, guests, lanes int, secure bool) ([]end, func(), error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "endpoints")
	c := exec.Command("/proc/self/exe", switchesArg, kind, strconv.Itoa(hosts), strconv.Itoa(guests), strconv.Itoa(lanes), strconv.FormatBool(secure))
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
	for range hosts * guests {
		e, err := receiveEnd(pair[0])
		if err != nil {
			undo()
			return nil, nil, err
		}
		ends = append(ends, e)
	}
	return ends, undo, nil
}

func receiveEnd(from int) (end, error) {
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
	return packets{c}, err
}

// beSwitches sends the endpoints' sockets, and ends by being killed.
func beSwitches(kind, hosts, guests, lanes, secure string) error {
	h, err := strconv.Atoi(hosts)
	if err != nil {
		return err
	}
	g, err := strconv.Atoi(guests)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(lanes)
	if err != nil {
		return err
	}
	debug.SetGCPercent(40) // as a node does
	files, err := makeSwitches(kind, h, g, n, secure == "true")
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

func makeSwitches(kind string, hosts, guests, lanes int, secure bool) ([]*os.File, error) {
	authority, err := wire.NewAuthority()
	if err != nil {
		return nil, err
	}
	var all []*fabric.Fabric
	var files []*os.File
	for host := range hosts {
		f := fabric.New(kind, fabric.Sockets, fabric.Place{Host: host, Hosts: hosts, Guests: guests}, slog.New(slog.DiscardHandler))
		all = append(all, f)
		for g := range guests {
			file, err := f.Attach(host*guests + g)
			if err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		for _, above := range fabric.Above(kind, host) {
			for lane := range lanes {
				a, b, err := connect(authority, secure)
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
