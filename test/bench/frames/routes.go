package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// route is one by which frames go between two endpoints.
type route struct {
	name   string
	most   int // bytes of a frame's payload; 0: 64,000
	guests int // of either host, each with a flow to one of the other; 0: one
	make   func() (ends []end, undo func(), err error)
}

func routes() []route {
	return []route{
		{"switch, two hosts, TLS", 0, 0, mesh{fabric.Switch, fabric.Rings, 2, 1, 1, true}.make},
		{"switch, two hosts, plain", 0, 0, mesh{fabric.Switch, fabric.Rings, 2, 1, 1, false}.make},
		{"switch, one host", 0, 0, mesh{fabric.Switch, fabric.Rings, 1, 2, 1, false}.make},
		{"switch by sockets, two hosts, TLS", 0, 0, mesh{fabric.Switch, fabric.Sockets, 2, 1, 1, true}.make},
		{"switch by sockets, two hosts, plain", 0, 0, mesh{fabric.Switch, fabric.Sockets, 2, 1, 1, false}.make},
		{"switch by sockets, one host", 0, 0, mesh{fabric.Switch, fabric.Sockets, 1, 2, 1, false}.make},
		{"switch, four flows by one connection", 0, 4, mesh{fabric.Switch, fabric.Sockets, 2, 4, 1, true}.make},
		{"switch, four flows by four connections", 0, 4, mesh{fabric.Switch, fabric.Sockets, 2, 4, 4, true}.make},
		{"QEMU socket multicast", 0, 0, func() ([]end, func(), error) { return multicast(2) }},
		{"QEMU stream pair", 0, 0, stream},
		{"vde_switch", 1500, 0, vde},
		{"kernel bridge with veth", 0, 0, bridge},
	}
}

// packets is an end on a socket that keeps frames apart.
type packets struct {
	net.Conn
}

func (p packets) Send(frame []byte) error       { _, err := p.Write(frame); return soft(err) }
func (p packets) Receive(b []byte) (int, error) { return p.Read(b) }
func (p packets) Wait(until time.Time)          { p.SetReadDeadline(until) }

// soft overlooks that a queue is full: the frame is lost, as QEMU would have it.
func soft(err error) error {
	if errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	return err
}

// multicast has each endpoint send to a group, as QEMU's socket back end does.
func multicast(size int) ([]end, func(), error) {
	group := &net.UDPAddr{IP: net.IPv4(239, 192, 7, 7), Port: 20007}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, nil, err
	}
	var ends []end
	for range size {
		c, err := net.ListenMulticastUDP("udp4", lo, group)
		if err != nil {
			return nil, nil, err
		}
		raw, err := c.SyscallConn()
		if err != nil {
			return nil, nil, err
		}
		raw.Control(func(fd uintptr) { //nolint:errcheck // what fails shows at once
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1)                                         //nolint:errcheck // see above
			unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(lo.Index)}) //nolint:errcheck // see above
		})
		ends = append(ends, grouped{c, group})
	}
	return ends, func() { closeAll(ends) }, nil
}

func closeAll(ends []end) {
	for _, e := range ends {
		e.Close()
	}
}

type grouped struct {
	*net.UDPConn
	group *net.UDPAddr
}

func (g grouped) Send(frame []byte) error       { _, err := g.WriteToUDP(frame, g.group); return soft(err) }
func (g grouped) Receive(b []byte) (int, error) { n, _, err := g.ReadFromUDP(b); return n, err }
func (g grouped) Wait(until time.Time)          { g.SetReadDeadline(until) }

// stream joins two endpoints directly, each frame after its length, as QEMU's
// stream back end does. There is no switch on the way.
func stream() ([]end, func(), error) {
	a, b, err := connect()
	if err != nil {
		return nil, nil, err
	}
	ends := []end{&framed{Conn: a, in: bufio.NewReaderSize(a, 128<<10)}, &framed{Conn: b, in: bufio.NewReaderSize(b, 128<<10)}}
	return ends, func() { closeAll(ends) }, nil
}

type framed struct {
	net.Conn
	in *bufio.Reader
}

func (f *framed) Send(frame []byte) error {
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(frame)))
	parts := net.Buffers{length[:], frame}
	_, err := parts.WriteTo(f.Conn)
	return err
}

func (f *framed) Receive(b []byte) (int, error) {
	var length [4]byte
	if _, err := io.ReadFull(f.in, length[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n > len(b) {
		return 0, errors.New("a frame that cannot be")
	}
	return io.ReadFull(f.in, b[:n])
}

func (f *framed) Wait(until time.Time) { f.SetReadDeadline(until) }

// children are the processes that forward, if some do: their processor time counts.
var children atomic.Pointer[[]int] // this program measures one way at a time

func childTime() (seconds float64) {
	pids := children.Load()
	if pids == nil {
		return 0
	}
	for _, pid := range *pids {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		var user, system float64
		fmt.Sscan(f[11], &user)   //nolint:errcheck // the kernel writes numbers
		fmt.Sscan(f[12], &system) //nolint:errcheck // see above
		seconds += (user + system) / 100
	}
	return seconds
}

// vde joins two endpoints by VDE's switch, in the protocol of its library: a
// stream socket to ask on, a datagram socket on each side for frames.
func vde() ([]end, func(), error) {
	dir, err := os.MkdirTemp("", "bee-vde-")
	if err != nil {
		return nil, nil, err
	}
	control := filepath.Join(dir, "ctl")
	c := exec.Command("vde_switch", "-s", control)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe() // it ends with it
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	children.Store(&[]int{c.Process.Pid})
	var ends []end
	undo := func() {
		closeAll(ends)
		in.Close()
		c.Process.Kill()
		procid.Reap(c) // we killed it
		children.Store(nil)
		os.RemoveAll(dir)
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(control, "ctl")); err == nil {
			break
		} else if time.Since(begun) > 5*time.Second {
			undo()
			return nil, nil, err
		}
	}
	for i := range 2 {
		e, err := plug(filepath.Join(control, "ctl"), filepath.Join(dir, fmt.Sprint("end", i)))
		if err != nil {
			undo()
			return nil, nil, err
		}
		ends = append(ends, e)
	}
	return ends, undo, nil
}

// plug asks for a port of a VDE switch.
func plug(control, own string) (end, error) {
	ask, err := net.Dial("unix", control)
	if err != nil {
		return nil, err
	}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: own, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	const pathLength = 108
	request := binary.LittleEndian.AppendUint32(nil, 0xfeedface)
	request = binary.LittleEndian.AppendUint32(request, 3)
	request = binary.LittleEndian.AppendUint32(request, 0)
	request = binary.LittleEndian.AppendUint16(request, unix.AF_UNIX)
	request = append(append(request, own...), make([]byte, pathLength-len(own))...)
	request = append(request, "bee\x00"...)
	if _, err := ask.Write(request); err != nil {
		return nil, err
	}
	answer := make([]byte, 2+pathLength)
	if _, err := io.ReadFull(ask, answer); err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(string(answer[2:]), "\x00")
	return &plugged{c, ask, &net.UnixAddr{Name: name, Net: "unixgram"}}, nil
}

type plugged struct {
	*net.UnixConn
	ask net.Conn
	to  *net.UnixAddr
}

func (p *plugged) Send(frame []byte) error       { _, err := p.WriteToUnix(frame, p.to); return soft(err) }
func (p *plugged) Receive(b []byte) (int, error) { n, _, err := p.ReadFromUnix(b); return n, err }
func (p *plugged) Wait(until time.Time)          { p.SetReadDeadline(until) }
func (p *plugged) Close() error                  { return errors.Join(p.ask.Close(), p.UnixConn.Close()) }

// bridge joins two endpoints by the kernel's, each at one end of a veth pair.
func bridge() ([]end, func(), error) {
	ip := func(line string) error {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
		return nil
	}
	undo := func() {
		ip("link del beebr") //nolint:errcheck // it may not be there
		ip("link del bee0")  //nolint:errcheck // see above
		ip("link del bee1")  //nolint:errcheck // see above
	}
	lines := []string{"link add beebr type bridge mcast_snooping 0 stp_state 0"}
	for i := range 2 {
		lines = append(lines, fmt.Sprintf("link add bee%d address %s type veth peer name port%d", i, fabric.MAC(i), i),
			fmt.Sprintf("link set port%d mtu 65535 master beebr up", i), fmt.Sprintf("link set bee%d mtu 65535 up", i))
	}
	for _, line := range append(lines, "link set beebr mtu 65535 up") {
		if err := ip(line); err != nil {
			undo()
			return nil, nil, err
		}
	}
	var ends []end
	for i := range 2 {
		e, err := rawSocket(fmt.Sprint("bee", i))
		if err != nil {
			undo()
			return nil, nil, err
		}
		ends = append(ends, e)
	}
	return ends, func() { closeAll(ends); undo() }, nil
}

type rawEnd struct{ *os.File }

// rawSocket takes and gives an interface's frames of the type for experiments.
func rawSocket(name string) (end, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	const kind = 0xb588 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, kind)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: kind, Ifindex: i.Index}); err != nil {
		return nil, err
	}
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) //nolint:errcheck // then it is smaller
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4<<20) //nolint:errcheck // see above
	return rawEnd{os.NewFile(uintptr(fd), name)}, nil
}

func (r rawEnd) Send(frame []byte) error       { _, err := r.Write(frame); return soft(err) }
func (r rawEnd) Receive(b []byte) (int, error) { return r.Read(b) }
func (r rawEnd) Wait(until time.Time)          { r.SetReadDeadline(until) }

// meshes are the fabrics that join many.
func meshes() []string {
	return []string{fabric.Switch, plainSwitch, fabric.Tree, fabric.Star, fabric.Multicast}
}

// plainSwitch is BEE's without TLS, as in runs that ask for it: to be compared with what
// knows none.
const plainSwitch = "switch, plain"

func crowdOf(kind string) ([]end, func(), error) {
	if kind == fabric.Multicast {
		return multicast(crowdSize)
	}
	if kind == plainSwitch {
		return mesh{fabric.Switch, fabric.Rings, crowdSize, 1, 1, false}.make()
	}
	return mesh{kind, fabric.Rings, crowdSize, 1, 1, true}.make()
}
