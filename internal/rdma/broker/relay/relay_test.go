package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// ends are those of a connection: of packets, or of a stream.
func ends(t testing.TB, kind int) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns[i] = c.(*net.UnixConn)
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return conns[0], conns[1]
}

// memfd is memory of so many bytes.
func memfd(t testing.TB, bytes int64) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("pool", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "pool")
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(bytes); err != nil {
		t.Fatal(err)
	}
	return f
}

func openFiles(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// hosted is a host's half, with the broker and the stream that it has.
func hosted(t testing.TB, pool *os.File) (broker, stream *net.UnixConn, over <-chan error) {
	t.Helper()
	broker, program := ends(t, unix.SOCK_SEQPACKET)
	stream, own := ends(t, unix.SOCK_STREAM)
	done := make(chan error, 1)
	go func() { done <- Host(t.Context(), own, program, pool) }()
	return broker, stream, done
}

// answer sends a reply of the broker with descriptors.
func answer(t testing.TB, broker *net.UnixConn, descriptors ...int) {
	t.Helper()
	packet, err := message.Reply(message.OpConnect, make([]uint64, len(descriptors)), message.ConnectReply{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := broker.WriteMsgUnix(packet, unix.UnixRights(descriptors...), nil); err != nil {
		t.Fatal(err)
	}
}

// TestSockets: what is sent on a socket arrives at the other half, and its end does. A reply that has a socket again names
// the same one.
func TestSockets(t *testing.T) {
	pool := memfd(t, 4096)
	before := openFiles(t)
	t.Run("relay", func(t *testing.T) {
		broker, stream, over := hosted(t, pool)
		theirs, passed := ends(t, unix.SOCK_STREAM)
		file, err := passed.File()
		if err != nil {
			t.Fatal(err)
		}
		var ids []uint32
		for range 2 {
			answer(t, broker, int(file.Fd()), int(pool.Fd()))
			f, err := readFrame(stream)
			if err != nil || f.kind != kindReply {
				t.Fatalf("got %+v, %v", f, err)
			}
			passes, packet, err := decodeReply(f.body)
			if err != nil || len(passes) != 2 || passes[0].kind != ofStream || passes[1].kind != ofMemory || binary.LittleEndian.Uint16(packet[6:]) != 2 {
				t.Fatalf("got %+v, %v", passes, err)
			}
			ids = append(ids, passes[0].id)
		}
		file.Close()
		passed.Close()
		if ids[0] != ids[1] {
			t.Errorf("one socket has the numbers %v", ids)
		}
		if _, err := stream.Write(frame{kindData, ids[0], []byte("up")}.encode()); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2)
		if _, err := io.ReadFull(theirs, got); err != nil || string(got) != "up" {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := theirs.Write([]byte("down")); err != nil {
			t.Fatal(err)
		}
		if f, err := readFrame(stream); err != nil || f.kind != kindData || f.id != ids[0] || !bytes.Equal(f.body, []byte("down")) {
			t.Errorf("got %+v, %v", f, err)
		}
		theirs.Close()
		if f, err := readFrame(stream); err != nil || f.kind != kindEnd || f.id != ids[0] {
			t.Errorf("got %+v, %v", f, err)
		}
		broker.Close()
		if err := <-over; err != nil {
			t.Errorf("at the end of the broker: %v", err)
		}
	})
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are left", after-before)
	}
}

// TestSocketsThatHaveEnded: a relay keeps nothing of them, however many a guest has.
func TestSocketsThatHaveEnded(t *testing.T) {
	_, program := ends(t, unix.SOCK_SEQPACKET)
	_, own := ends(t, unix.SOCK_STREAM)
	h := host{half: newHalf(own), broker: program}
	for range 100 {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		p, err := h.sort(fds[0])
		if err != nil {
			t.Fatal(err)
		}
		if !h.remove(p.id) {
			t.Errorf("there is no socket %d", p.id)
		}
		unix.Close(fds[1])
	}
	if len(h.sockets)+len(h.numbers) > 0 {
		t.Errorf("left are %d sockets and %d numbers", len(h.sockets), len(h.numbers))
	}
}

// TestGuestThatReadsNoMore: it keeps nothing of the host's, once it has ended what it sends.
func TestGuestThatReadsNoMore(t *testing.T) {
	broker, stream, over := hosted(t, memfd(t, 4096))
	packet, err := message.Reply(message.OpConnect, nil, [1024]byte{})
	if err == nil {
		err = broker.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	}
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // until nothing has room
		_, err = broker.Write(packet)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := stream.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-over:
		t.Logf("the relay has ended: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("the relay has not ended")
	}
}

// TestNoMoreDescriptors: where those of a reply have no room, the program gets an error, and all else continues.
func TestNoMoreDescriptors(t *testing.T) {
	pool := memfd(t, 4096)
	broker, stream, over := hosted(t, pool)
	packet, err := message.Reply(message.OpConnect, nil, message.ConnectReply{})
	if err != nil {
		t.Fatal(err)
	}
	many := make([]int, message.Descriptors+2)
	for i := range many {
		many[i] = int(pool.Fd())
	}
	before := openFiles(t)
	if _, _, err := broker.WriteMsgUnix(packet, unix.UnixRights(many...), nil); err != nil {
		t.Fatal(err)
	}
	answer(t, broker, int(pool.Fd()))
	for i, want := range []syscall.Errno{syscall.EMFILE, 0} {
		f, err := readFrame(stream)
		if err != nil {
			t.Fatal(err)
		}
		passes, reply, err := decodeReply(f.body)
		if err != nil || f.kind != kindReply || message.Refused(reply) != want || len(passes) != i {
			t.Errorf("reply %d has %d descriptors, and is %x, %v", i, len(passes), reply, err)
		}
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are left", after-before)
	}
	broker.Close()
	if err := <-over; err != nil {
		t.Errorf("at the end of the broker: %v", err)
	}
}

// TestRefusedPool: the error says why.
func TestRefusedPool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, message.Packet)); err == nil {
			_, _ = c.Write(message.Refusal(message.OpHello, syscall.EMFILE))
		}
	}()
	if _, _, err := Pool(path, strings.Repeat("b", message.Build)); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("got %v", err)
	}
}

// TestForeignMemory: memory that is not of the pool never reaches a guest.
func TestForeignMemory(t *testing.T) {
	broker, _, over := hosted(t, memfd(t, 4096))
	answer(t, broker, int(memfd(t, 4096).Fd()))
	if err := <-over; err == nil {
		t.Error("the relay has not ended")
	}
}

// TestHostileGuest: whatever a guest sends, the broker gets packets of a size that it reads, and all ends with the
// stream.
func TestHostileGuest(t *testing.T) {
	pool := memfd(t, 4096)
	before := openFiles(t)
	t.Run("guests", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 98))
		for range 200 {
			broker, stream, over := hosted(t, pool)
			sizes := make(chan int, 1)
			go func() {
				most, buf := 0, make([]byte, 2*message.Packet)
				for {
					n, err := broker.Read(buf)
					if err != nil || n == 0 {
						sizes <- most
						return
					}
					most = max(most, n)
				}
			}()
			for range 20 {
				f := frame{kind(r.IntN(6)), r.Uint32N(3), make([]byte, r.IntN(mostBytes))}
				raw := f.encode()
				if r.IntN(4) == 0 {
					raw[r.IntN(headBytes)] ^= 1 << r.IntN(8)
				}
				if _, err := stream.Write(raw); err != nil {
					break // it has ended the stream
				}
			}
			stream.Close()
			if err := <-over; err != nil && errors.Is(err, net.ErrClosed) {
				t.Errorf("it ends by its own end: %v", err)
			}
			if most := <-sizes; most > message.Packet {
				t.Errorf("the broker got a packet of %d bytes", most)
			}
		}
	})
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors are left", after-before)
	}
}

// FuzzReplies: whatever a host sends, the agent of a guest ends with an error or the stream, and a program gets what has
// the size of a reply.
func FuzzReplies(f *testing.F) {
	packet, err := message.Reply(message.OpConnect, []uint64{1 << 21, 1 << 21, 0}, message.ConnectReply{})
	if err != nil {
		f.Fatal(err)
	}
	passes := []pass{{ofMemory, 0}, {ofMemoryToRead, 0}, {ofStream, 1}}
	f.Add(frame{kind: kindReply, body: encodeReply(passes, packet)}.encode())
	f.Add(append(frame{kind: kindReply, body: encodeReply(passes[2:], packet)}.encode(), frame{kindData, 1, []byte("x")}.encode()...))
	f.Add(frame{kind: kindReply, body: encodeReply([]pass{{9, 9}}, packet)}.encode())
	f.Add(frame{kind: kindReply, body: encodeReply(passes, packet[:20])}.encode())
	f.Add(frame{kind: kindReply, body: []byte{255}}.encode())
	pool := memfd(f, 4096)
	f.Fuzz(func(t *testing.T, raw []byte) {
		program, own := ends(t, unix.SOCK_SEQPACKET)
		stream, theirs := ends(t, unix.SOCK_STREAM)
		over := make(chan error, 1)
		go func() { over <- Guest(t.Context(), own, theirs, Memory{All: pool, Read: pool, Base: 1 << 20}) }()
		go func() {
			_, err := stream.Write(raw)
			if err = errors.Join(err, stream.CloseWrite()); err != nil {
				stream.Close()
			}
		}()
		if err := <-over; err != nil && errors.Is(err, net.ErrClosed) {
			t.Errorf("it ends by its own end: %v", err)
		}
		buf, control := make([]byte, 2*message.Packet), make([]byte, 1024)
		for {
			n, m, _, _, err := program.ReadMsgUnix(buf, control)
			if err != nil || n == 0 {
				return
			}
			descriptors, err := rights(control[:m])
			closeAll(descriptors)
			if err != nil || n > message.Packet {
				t.Errorf("a reply of %d bytes, %v", n, err)
			}
		}
	})
}
