package server

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// openFiles is how many descriptors this process has.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// bystanders are two processes with a connection between them, and memory of one for the other.
type bystanders struct {
	t      testing.TB
	a, b   *client
	qa, qb objects
	mr     message.RegisterReply
}

func newBystanders(t testing.TB, paths [2]string) *bystanders {
	t.Helper()
	s := &bystanders{t: t, a: greet(t, paths[0]), b: greet(t, paths[1])}
	s.qa, s.qb = s.a.queuePair(), s.b.queuePair()
	_, first := s.a.connect(s.qa, s.qb.qp.Number, 2)
	_, second := s.b.connect(s.qb, s.qa.qp.Number, 1)
	var region message.Created
	memory := s.a.must(message.OpCreateRegion, &region, message.CreateRegion{Bytes: 4096})
	s.a.must(message.OpRegister, &s.mr, message.Register{PD: s.qa.pd, Access: 7, Addr: 4096, Length: 4096, IOVA: 4096, Count: 1}, message.Extent{Bytes: 4096, Region: region.Handle})
	closeAll(first, second, memory)
	return s
}

func closeAll(lists ...[]int) {
	for _, fds := range lists {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
}

// check fails where anything of them has changed.
func (s *bystanders) check() {
	s.t.Helper()
	if a, b := s.a.state(s.qa.qp.Slot), s.b.state(s.qb.qp.Slot); a != 4 || b != 4 {
		s.t.Errorf("the states of the connection are %d and %d", a, b)
	}
	if key := binary.LittleEndian.Uint32(s.a.table[message.TableKeys+4*s.mr.Slot:]); key != s.mr.Key {
		s.t.Errorf("the key %#x is %#x now", s.mr.Key, key)
	}
	var found message.ResolveReply
	if memory, errno := s.b.call(message.OpResolve, &found, message.Resolve{Handle: s.qb.qp.Handle, Key: s.mr.Key}); errno != 0 || found.Length != 4096 || len(memory) != 1 {
		s.t.Errorf("the memory of the peer: %+v, %v", found, errno)
	} else {
		closeAll(memory)
	}
	for _, c := range []*client{s.a, s.b} {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.events), Events: unix.POLLIN}}, 0); n != 0 {
			s.t.Errorf("a process has got an event, %v", err)
		}
	}
}

// attacker is a process that sends what it likes, in the container of one bystander.
type attacker struct {
	t    testing.TB
	path string
	conn *net.UnixConn
	left int // how often it may open the device again
}

func (k *attacker) open() bool {
	if k.conn != nil {
		k.conn.Close()
	}
	if k.left--; k.left < 0 {
		return false
	}
	k.conn = dial(k.t, k.path).conn
	k.conn.SetDeadline(time.Now().Add(time.Minute))
	return k.send(packet(message.OpHello, message.Hello{Protocol: message.Protocol, Build: [32]byte([]byte(testBuild))}))
}

// send sends bytes, and reports whether the connection stays. A reply must be one.
func (k *attacker) send(raw []byte, descriptors ...int) bool {
	k.t.Helper()
	if _, _, err := k.conn.WriteMsgUnix(raw, rights(descriptors), nil); err != nil {
		return false
	}
	reply, oob := make([]byte, message.Packet+1), make([]byte, 4096)
	n, on, _, _, err := k.conn.ReadMsgUnix(reply, oob)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		k.t.Fatalf("no reply to %x", raw)
	}
	if err != nil || n == 0 {
		return false
	}
	count := 0
	messages, err := unix.ParseSocketControlMessage(oob[:on])
	if err != nil {
		k.t.Fatal(err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			k.t.Fatal(err)
		}
		count += len(fds)
		closeAll(fds)
	}
	if n < 16 || int(binary.LittleEndian.Uint32(reply)) != n || [2]byte(reply[4:]) != [2]byte(raw[4:]) || int(binary.LittleEndian.Uint16(reply[6:])) != count {
		k.t.Fatalf("the reply to %x is %x, with %d descriptors", raw, reply[:n], count)
	}
	return true
}

func rights(descriptors []int) []byte {
	if len(descriptors) == 0 {
		return nil
	}
	return unix.UnixRights(descriptors...)
}

// packet encodes a request.
func packet(op message.Op, parts ...any) []byte {
	raw := make([]byte, 8)
	for _, part := range parts {
		raw, _ = binary.Append(raw, binary.LittleEndian, part)
	}
	binary.LittleEndian.PutUint32(raw, uint32(len(raw)))
	binary.LittleEndian.PutUint16(raw[4:], uint16(op))
	return raw
}

// foreseen has the server draw the numbers and keys 16, 17, …, which scripts can name.
func foreseen(ports [2]*Port) {
	next := uint32(15)
	b := broker.New(memory{}, func() uint32 { next++; return next })
	for _, p := range ports {
		p.server.mu.Lock()
		p.server.broker = b
		p.node = b.Node(p.node.Address, p.node.Limits)
		p.server.mu.Unlock()
	}
}

// script is requests as bytes: each with its length before it.
func script(packets ...[]byte) (s []byte) {
	for _, p := range packets {
		s = append(binary.LittleEndian.AppendUint16(s, uint16(len(p))), p...)
	}
	return s
}

// play sends a script. The broker answers or ends the connection; others see nothing of it,
// and nothing is left.
func play(t *testing.T, s []byte) {
	before := openFiles(t)
	t.Run("script", func(t *testing.T) { // all of it is closed at its end
		l := plenty()
		l.Memory, l.QPs, l.MRs, l.PDs = 1<<20, 8, 8, 8
		paths, _, ports := testPorts(t, l)
		foreseen(ports)
		others := newBystanders(t, paths)
		k := &attacker{t: t, path: paths[0], left: 8}
		for open := k.open(); open && len(s) > 2; {
			n := min(int(binary.LittleEndian.Uint16(s)), len(s)-2)
			if n > 0 && !k.send(s[2:2+n]) {
				open = k.open()
			}
			s = s[2+n:]
		}
		others.check()
		k.conn.Close()
		others.a.conn.Close()
		others.b.conn.Close()
		for _, p := range ports {
			p.Close()
			if u := p.node.Usage(); u != (broker.Usage{}) {
				t.Errorf("left are %+v", u)
			}
		}
	})
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are left", after-before)
	}
}

// corpus are scripts that each try one thing. The first objects of the bystanders have
// handles 1 to 5, numbers 16 and 17 and key 18.
func corpus() [][]byte {
	pd, cq := packet(message.OpCreate, message.Create{Kind: message.KindPD}), packet(message.OpCreate, message.Create{Kind: message.KindCQ})
	qp := packet(message.OpCreateQP, message.CreateQP{Type: 2, PD: 1, SendCQ: 2, RecvCQ: 2, MaxSend: 1, MaxRecv: 1})
	datagram := packet(message.OpCreateQP, message.CreateQP{Type: 4, PD: 1, SendCQ: 2, RecvCQ: 2})
	modify := func(m message.ModifyQP) []byte { return packet(message.OpModifyQP, m) }
	toPeer := [][]byte{
		pd, cq, qp, modify(message.ModifyQP{Handle: 3, Mask: maskInit, State: 1, Port: 1, Access: 15}),
		modify(message.ModifyQP{Handle: 3, Mask: maskRTR, State: 2, MTU: 5, Destination: 17, LID: 2, AHPort: 1}), packet(message.OpConnect, message.Connect{Handle: 3}),
	}
	var foreign, truncated [][]byte
	for handle := range uint32(12) {
		foreign = append(foreign,
			packet(message.OpDestroy, message.Destroy{Handle: handle}), packet(message.OpConnect, message.Connect{Handle: handle}),
			packet(message.OpResolve, message.Resolve{Handle: handle, Key: 18}), packet(message.OpRaise, message.Raise{Event: 1, Handle: handle}),
			packet(message.OpFailQP, message.FailQP{Handle: handle, Event: 1, Peer: 1, PeerEvent: 1}),
			packet(message.OpRegister, message.Register{PD: handle, Addr: 4096, Length: 4096, Count: 1}, message.Extent{Bytes: 4096, Region: handle}),
			modify(message.ModifyQP{Handle: handle, Mask: 1, State: 6}))
	}
	for n := range len(qp) {
		truncated = append(truncated, qp[:n])
	}
	return [][]byte{
		{},
		script(foreign...), script(truncated...), script(toPeer...),
		script(append(toPeer, packet(message.OpResolve, message.Resolve{Handle: 3, Key: 18}), packet(message.OpFailQP, message.FailQP{Handle: 3, Event: 1, Peer: 1, PeerEvent: 1}))...),
		script(pd, cq, datagram, packet(message.OpAttach, message.Attach{Number: 16, LID: 1}), packet(message.OpAttach, message.Attach{Number: 17, LID: 2}), packet(message.OpJoin, message.Group{Handle: 3, GID: [16]byte{0xff}}), packet(message.OpMembers, message.Group{GID: [16]byte{0xff}})),
		script(packet(message.OpHello, message.Hello{Protocol: message.Protocol, Build: [32]byte([]byte(testBuild))})),
		script(packet(message.OpCreateRegion, message.CreateRegion{Bytes: 1 << 63}), packet(message.OpCreateRegion, message.CreateRegion{Bytes: 4095}), packet(message.OpCreateRegion, message.CreateRegion{Bytes: 1 << 20}), packet(message.OpCreateRegion, message.CreateRegion{Bytes: 4096})),
		script(pd, packet(message.OpCreateRegion, message.CreateRegion{Bytes: 4096}), packet(message.OpRegister, message.Register{PD: 1, Access: 7, Addr: 1<<64 - 4096, Length: 8192, Count: 1}, message.Extent{Bytes: 4096, Region: 2}), packet(message.OpRegister, message.Register{PD: 1, Access: 7, Addr: 4096, Length: 4096, Count: 1}, message.Extent{At: 1<<64 - 4096, Bytes: 8192, Region: 2})),
		script(itself()...),
		script(make([]byte, message.Packet+1)), script([]byte{8, 0, 0, 0, 0xff, 0xff, 0, 0}),
	}
}

// itself are requests of a process that connects with itself.
func itself() [][]byte {
	call := func(op message.Op, handle, value uint32) []byte {
		return packet(op, message.CMCall{Handle: handle, Value: value})
	}
	channel, id := call(message.OpCMChannel, 0, 0), call(message.OpCMID, 1, broker.SpaceTCP)
	here := message.CMAddress{Family: 4, Port: 7, Own: 1, IP: [16]byte{127, 0, 0, 1}}
	return [][]byte{
		channel, id, packet(message.OpCMBind, message.CMBind{Handle: 2, Address: here}), call(message.OpCMListen, 2, 1),
		id, packet(message.OpCMResolve, message.CMResolve{Handle: 3, Source: here, Destination: here}),
		packet(message.OpCMResolve, message.CMResolve{Handle: 3, Destination: here}), call(message.OpCMRoute, 3, 0),
		packet(message.OpCMConnect, message.CMAnswer{Handle: 3, Param: message.CMParam{PrivateBytes: 57}}),
		packet(message.OpCMConnect, message.CMAnswer{Handle: 3, Param: message.CMParam{PrivateBytes: 56}}),
		packet(message.OpCMAccept, message.CMAnswer{Handle: 4, Param: message.CMParam{PrivateBytes: 255}}),
		packet(message.OpCMAccept, message.CMAnswer{Handle: 4}), packet(message.OpCMAccept, message.CMAnswer{Handle: 3}),
		channel, call(message.OpCMMigrate, 3, 5), call(message.OpCMMigrate, 2, 5), call(message.OpCMMigrate, 5, 1),
		call(message.OpCMEvent, 1, 0), call(message.OpCMEvent, 5, 0), call(message.OpCMEvent, 5, 0), call(message.OpCMDisconnect, 4, 0),
		call(message.OpCMDisconnect, 3, 0), packet(message.OpDestroy, message.Destroy{Handle: 1}), packet(message.OpDestroy, message.Destroy{Handle: 5}),
		packet(message.OpDestroy, message.Destroy{Handle: 4}), packet(message.OpCMReject, message.CMAnswer{Handle: 3, Reason: 28}),
	}
}

// FuzzRequests: whatever a process sends, the broker answers or ends its connection, and
// others see nothing of it.
func FuzzRequests(f *testing.F) {
	for _, s := range corpus() {
		f.Add(s)
	}
	f.Fuzz(play)
}

// TestRandomRequests plays requests that are nearly right: with numbers of others, and cut,
// extended or changed bytes.
func TestRandomRequests(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 26))
	bodies := []any{
		message.Create{},
		message.Destroy{},
		message.CreateQP{},
		message.ModifyQP{},
		message.Connect{},
		message.FailQP{},
		message.CreateRegion{},
		message.Register{},
		message.Resolve{},
		message.Attach{},
		message.Raise{},
		message.Group{},
		message.Group{},
		message.Group{},
		message.CMCall{},
		message.CMCall{},
		message.CMBind{},
		message.CMCall{},
		message.CMResolve{},
		message.CMCall{},
		message.CMAnswer{},
		message.CMAnswer{},
		message.CMAnswer{},
		message.CMCall{},
		message.CMCall{},
		message.CMCall{},
		message.CMCall{},
	}
	for range 20 {
		var packets [][]byte
		for range 60 {
			i := r.IntN(len(bodies))
			raw := packet(message.OpCreate+message.Op(i), bodies[i])
			for at := 8; at+4 <= len(raw); at += 4 {
				if r.IntN(4) > 0 {
					binary.LittleEndian.PutUint32(raw[at:], r.Uint32N(20))
				}
			}
			switch r.IntN(12) {
			case 0:
				raw = raw[:r.IntN(len(raw))]
			case 1:
				raw = append(raw, make([]byte, r.IntN(64))...)
				binary.LittleEndian.PutUint32(raw, uint32(len(raw)))
			case 2:
				raw[r.IntN(len(raw))] ^= 1 << r.IntN(8)
			}
			packets = append(packets, raw)
		}
		play(t, script(packets...))
	}
}

// TestForeignDescriptors: a request with descriptors, of whatever kind, ends the connection of
// its process alone, and the broker keeps none of them.
func TestForeignDescriptors(t *testing.T) {
	paths, _, ports := testPorts(t, plenty())
	others := newBystanders(t, paths)
	kinds := map[string]int{}
	add := func(name string, fd int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		kinds[name] = fd
		t.Cleanup(func() { unix.Close(fd) })
	}
	var pipe [2]int
	err := unix.Pipe2(pipe[:], unix.O_CLOEXEC)
	add("read end of a pipe", pipe[0], err)
	add("write end of a pipe", pipe[1], err)
	directory, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	add("directory", directory, err)
	file, err := unix.Open(filepath.Join(t.TempDir(), "short"), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	add("empty file", file, err)
	open, err := unix.MemfdCreate("open", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	add("memory without seals", open, errors.Join(err, unix.Ftruncate(open, 1<<20)))
	sealed, err := unix.MemfdCreate("sealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	_, serr := unix.FcntlInt(uintptr(sealed), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	add("sealed memory", sealed, errors.Join(err, serr))
	add("memory of the device", others.a.files[0], nil)
	before := openFiles(t)
	for name, fd := range kinds {
		for _, count := range []int{1, 200} {
			k := &attacker{t: t, path: paths[0], left: 1}
			if !k.open() {
				t.Fatal("the device does not open")
			}
			many := make([]int, count)
			for i := range many {
				many[i] = fd
			}
			if k.send(packet(message.OpCreateRegion, message.CreateRegion{Bytes: 4096}), many...) {
				t.Errorf("%s, %d times: the request is carried out", name, count)
			}
			k.conn.Close()
		}
	}
	if err := unix.Ftruncate(open, 0); err != nil {
		t.Error(err)
	}
	others.check()
	if s := ports[0].Statistics(); s.Objects[message.KindRegion] != 1 {
		t.Errorf("the port has %+v", s)
	}
	ports[0].Close() // so that all connections have ended
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are left", after-before)
	}
	if _, errno := others.b.call(message.OpResolve, nil, message.Resolve{Handle: others.qb.qp.Handle, Key: others.mr.Key}); errno != syscall.ENOTCONN {
		t.Errorf("a key of a peer that has ended: %v", errno)
	}
}
