package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"syscall"

	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/wire"
)

// switchArg has this program be the switch between endpoints of another process, as it
// is with hypervisors, so that its processor time is known.
const switchArg = "switch"

// mesh is which switches there are: of how many hosts, joined by how many connections,
// encrypted or not, with how many guests of each, and how these are attached.
type mesh struct {
	Kind, Attached             string
	Hosts, Guests, Connections int
	Secure                     bool
}

// order is what the switch of one host has to know.
type order struct {
	mesh
	Host     int
	Key      invitation
	Switches []string // where those before it listen
}

// make starts the switches in processes of their own, as they are on hosts, joined by
// TCP.
func (m mesh) make() (ends []end, undo func(), err error) {
	var undos []func()
	undo = func() {
		closeAll(ends)
		for _, u := range undos {
			u()
		}
		children.Store(nil)
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	authority, err := wire.NewAuthority()
	if err != nil {
		return ends, undo, err
	}
	var pids []int
	var at []string
	for host := range m.Hosts {
		o := order{mesh: m, Host: host, Switches: at}
		if o.Key, err = keyOf(authority, host); err != nil {
			return ends, undo, err
		}
		c, from, err := o.start()
		if err != nil {
			return ends, undo, err
		}
		undos = append(undos, func() {
			unix.Close(from)
			c.Process.Kill()
			procid.Reap(c) // we killed it
		})
		pids = append(pids, c.Process.Pid)
		children.Store(&pids)
		addr := make([]byte, 64)
		n, err := unix.Read(from, addr)
		if err != nil || n <= 0 {
			return ends, undo, errors.Join(errors.New("a switch ended"), err)
		}
		at = append(at, string(addr[:n]))
		for range m.Guests {
			e, err := m.receiveEnd(from)
			if err != nil {
				return ends, undo, err
			}
			ends = append(ends, e)
		}
	}
	return ends, undo, nil
}

// start starts a switch, and gives the socket by which it reports where it listens, and
// gives its guests' ends, when it is linked to those before it.
func (o order) start() (*exec.Cmd, int, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "endpoints")
	defer theirs.Close()
	c := exec.Command("/proc/self/exe", switchArg, string(raw))
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{theirs}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		unix.Close(pair[0])
		return nil, -1, err
	}
	return c, pair[0], nil
}

func (m mesh) receiveEnd(from int) (end, error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) == 0 {
		return nil, errors.Join(errors.New("a switch ended"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fds[0]), "guest")
	defer file.Close()
	c, err := net.FileConn(file)
	if err == nil && m.Attached == fabric.Rings {
		return newRings(c.(*net.UnixConn)) // that is what it is
	}
	return packets{c}, err
}

// beSwitch is one host's, and ends by being killed.
func beSwitch(raw string) error {
	var o order
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		return err
	}
	debug.SetGCPercent(40) // as a node does
	id, err := wire.NewIdentity(o.Key.CA, o.Key.Cert, o.Key.Key)
	if err != nil {
		return err
	}
	f := fabric.New(o.Kind, o.Attached, fabric.Place{Host: o.Host, Hosts: o.Hosts, Guests: o.Guests}, slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go o.accept(f, l, id)
	for _, above := range fabric.Above(o.Kind, o.Host) {
		for slot := range o.Connections {
			if err := o.dial(f, above, slot, id); err != nil {
				return err
			}
		}
	}
	const endpoints = 3
	if _, err := unix.Write(endpoints, []byte(l.Addr().String())); err != nil {
		return err
	}
	attach := f.Attach
	if o.Attached == fabric.Rings {
		attach = func(rank int) (*os.File, error) { return attachRings(f, rank) }
	}
	for g := range o.Guests {
		file, err := attach(o.Host*o.Guests + g)
		if err != nil {
			return err
		}
		if err := unix.Sendmsg(endpoints, []byte{0}, unix.UnixRights(int(file.Fd())), nil, 0); err != nil {
			return err
		}
	}
	select {}
}

// accept takes the connections of those after this one, which say whose and which they are.
func (o order) accept(f *fabric.Fabric, l net.Listener, id *wire.Identity) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		var whose [2]byte
		if _, err = io.ReadFull(c, whose[:]); err == nil {
			err = o.link(f, int(whose[0]), int(whose[1]), c, func() *wire.Secure { return id.SecureServer(c, "frames") })
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "frames:", err)
		}
	}
}

func (o order) dial(f *fabric.Fabric, host, slot int, id *wire.Identity) error {
	c, err := net.Dial("tcp", o.Switches[host])
	if err != nil {
		return err
	}
	if _, err := c.Write([]byte{byte(o.Host), byte(slot)}); err != nil {
		return err
	}
	return o.link(f, host, slot, c, func() *wire.Secure { return id.SecureClient(c, fmt.Sprint("node-", host), "frames") })
}

// link makes a connection of a connection, encrypted by TLS if the mesh has them so.
func (o order) link(f *fabric.Fabric, host, slot int, c net.Conn, secured func() *wire.Secure) error {
	if o.Secure {
		s := secured()
		if err := s.Handshake(); err != nil {
			return err
		}
		c = s
	}
	_, err := f.Link(host, slot, c)
	return err
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
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)) // that is what it is
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.File()
}

// connect gives both ends of a TCP connection.
func connect() (net.Conn, net.Conn, error) {
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
	return a, b, err
}
