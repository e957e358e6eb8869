package vhost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/fabric/loop"
)

const soon = time.Minute

func frameOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

var headerWithAll = []byte{1, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0} // to be summed and cut

func TestFramesPassBothWays(t *testing.T) {
	for name, feats := range map[string]uint64{"events": usual, "no events": usual &^ featEvents} {
		for _, bufferLen := range []int{256, 1526, 70000} {
			t.Run(fmt.Sprintf("%s, buffers of %d", name, bufferLen), func(t *testing.T) {
				got := make(chan []byte, ringSize)
				d, path := device(t, func(f []byte) { got <- bytes.Clone(f) })
				guest := connect(t, path, bufferLen, feats)
				guest.room(ringSize)
				for i := range 300 {
					size := []int{14, 60, 1514, 9000, 65294}[i%5]
					if bufferLen*ringSize < size+ringHeader {
						size = 1514
					}
					frame := frameOf(size)
					guest.send(uint16(i%ringSize), headerWithAll, frame, []int{1 << 20, 4096, 77}[i%3]*max(1, size/20000))
					if _, _, ok := guest.done(sending, soon); !ok {
						t.Fatal("a frame was not taken")
					}
					want := append(bytes.Clone(headerWithAll), frame...)
					if f := <-got; !bytes.Equal(f, want) {
						t.Fatalf("frame %d of %d bytes arrived as one of %d", i, size, len(f)-HeaderSize)
					}
					before := guest.seen[receiving]
					go give(d, want)
					f, ok := guest.receive(soon)
					if !ok || !bytes.Equal(f, want) {
						t.Fatalf("frame %d of %d bytes to the guest: got %d bytes, %t", i, size, len(f), ok)
					}
					guest.room(int(guest.seen[receiving] - before))
				}
			})
		}
	}
}

func TestAGuestWithoutRoomHoldsUp(t *testing.T) {
	d, path := device(t, func([]byte) {})
	guest := connect(t, path, 1526, usual)
	frame := append(make([]byte, HeaderSize), frameOf(9000)...)
	written := make(chan bool, 1)
	go func() { written <- give(d, frame) }()
	for range 6 { // it takes six buffers, and not one before
		if _, ok := guest.receive(10 * time.Millisecond); ok {
			t.Fatal("a frame arrived that has no room")
		}
		guest.room(1)
	}
	if f, ok := guest.receive(soon); !ok || !bytes.Equal(f, frame) {
		t.Fatal("the frame did not arrive when it had room")
	}
	if !<-written {
		t.Fatal("the frame that arrived was not given")
	}
}

// TestManyFramesAtOnce: those for which there is room arrive, and nobody who only offers
// some waits for the rest, or for one who does.
func TestManyFramesAtOnce(t *testing.T) {
	d, path := device(t, func([]byte) {})
	guest := connect(t, path, 1526, usual)
	var frames [][]byte
	for range 5 {
		frames = append(frames, append(make([]byte, HeaderSize), frameOf(2000)...)) // two buffers each
	}
	arrive := func(frames [][]byte) {
		t.Helper()
		for i, want := range frames {
			if f, ok := guest.receive(soon); !ok || !bytes.Equal(f, want) {
				t.Fatalf("frame %d came as one of %d bytes, %t", i, len(f), ok)
			}
		}
	}
	guest.room(7)
	if n, bytes := d.Offer(whole(frames...)); n != 3 || bytes != 3*len(frames[0]) {
		t.Fatalf("%d frames of %d bytes were given, want 3", n, bytes)
	}
	arrive(frames[:3])
	given := make(chan int, 1)
	go func() {
		n, _ := d.Give(whole(frames...))
		given <- n
	}()
	guest.room(2) // and one was left
	arrive(frames[:1])
	if n, _ := d.Offer(whole(frames...)); n != 0 {
		t.Fatalf("%d frames overtook those that wait", n)
	}
	guest.room(7)
	arrive(frames[1:])
	if n := <-given; n != len(frames) {
		t.Fatalf("%d frames were given, want %d", n, len(frames))
	}
	// One that cannot be is lost alone.
	guest.room(4)
	if n, _ := d.Give(whole(frames[0], make([]byte, HeaderSize), frames[1])); n != 2 {
		t.Fatalf("%d frames were given, want 2", n)
	}
	arrive(frames[:2])
}

// TestFramesPassFromGuestToGuest, long ones out of the memory of one into that of the
// other, in whatever parts they are in either.
func TestFramesPassFromGuestToGuest(t *testing.T) {
	for _, bufferLen := range []int{300, 1526, 70000} {
		to, toPath := device(t, func([]byte) {})
		l, fromPath := listen(t)
		in := &loop.Loop{}
		t.Cleanup(in.Close)
		from := Serve(l, in, slog.New(slog.DiscardHandler), func(frames []Frame) {
			if n, _ := to.Offer(frames); n != len(frames) {
				t.Errorf("%d of %d frames had room", n, len(frames))
			}
		})
		t.Cleanup(func() { from.Close() })
		sender, receiver := connect(t, fromPath, 2000, usual), connect(t, toPath, bufferLen, usual)
		receiver.room(ringSize)
		for i := range 400 {
			size := []int{60, 4000, 4085, 4097, 9000, 65294}[i%6]
			if bufferLen*ringSize < size+ringHeader {
				size = 4097
			}
			frame := frameOf(size)
			sender.send(uint16(i%ringSize), headerWithAll, frame, []int{1 << 20, 4096, 100, 12}[i%4]*max(1, size/20000))
			if _, _, ok := sender.done(sending, soon); !ok {
				t.Fatal("a frame was not taken")
			}
			before := receiver.seen[receiving]
			if f, ok := receiver.receive(soon); !ok || !bytes.Equal(f, append(bytes.Clone(headerWithAll), frame...)) {
				t.Fatalf("frame %d of %d bytes came as one of %d, %t", i, size, len(f)-HeaderSize, ok)
			}
			receiver.room(int(receiver.seen[receiving] - before))
		}
	}
}

func TestAHaltedDeviceGoesOnWhereItWas(t *testing.T) {
	got := make(chan []byte, ringSize)
	d, path := device(t, func(f []byte) { got <- bytes.Clone(f) })
	guest := connect(t, path, 2000, usual)
	frame := append(make([]byte, HeaderSize), frameOf(60)...)
	for round := range 3 {
		guest.room(1)
		if !give(d, frame) {
			t.Fatal("a frame was not given")
		}
		guest.send(uint16(round), make([]byte, HeaderSize), frame[HeaderSize:], 1<<20)
		<-got
		waiting := make(chan bool, 1)
		go func() { waiting <- give(d, frame) }() // has no room, and shall not wait for it
		var from [ringCount]uint16
		for i := range from {
			from[i] = binary.LittleEndian.Uint16(guest.ask(getVringBase, u32(uint32(i), 0))[4:])
			if from[i] != uint16(round+1) {
				t.Fatalf("ring %d stopped at %d after %d frames", i, from[i], round+1)
			}
		}
		if <-waiting || give(d, frame) {
			t.Fatal("a halted guest was given a frame")
		}
		guest.table()
		guest.start(from)
	}
}

func TestChangedPagesAreNoted(t *testing.T) {
	d, path := device(t, func([]byte) {})
	guest := connect(t, path, 6000, usual)
	fd, err := unix.MemfdCreate("log", 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "log")
	defer file.Close()
	size := (guestBase + memoryBytes) / pageSize / 8
	if err := file.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	pages, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	guest.ask(setLogBase, u64(uint64(size), 0), file)
	guest.report(setFeatures, u64(features))
	guest.room(1)
	if !give(d, append(make([]byte, HeaderSize), frameOf(5000)...)) {
		t.Fatal("a frame was not given")
	}
	guest.receive(soon)
	first := guestBase/pageSize + receivedAt/pageSize
	want := map[int]bool{guestBase/pageSize + usedAt/pageSize: true, first: true, first + 1: true}
	for p := range size * 8 {
		if noted := pages[p/8]>>(p%8)&1 != 0; noted != want[p] {
			t.Errorf("page %#x noted as changed: %t", p, noted)
		}
	}
}

// A guest can write what it likes into its rings: that costs it its network,
// and nobody else anything.
func TestHostileGuests(t *testing.T) {
	got := make(chan []byte, ringSize)
	_, path := device(t, func(f []byte) { got <- bytes.Clone(f) })
	for name, do := range map[string]func(*driver){
		"a circle of buffers": func(g *driver) {
			g.describe(sending, 0, guestBase, 10, descNext, 0)
			g.offer(sending, 0)
		},
		"memory that is not there": func(g *driver) {
			g.describe(sending, 0, 0, 100, 0, 0)
			g.offer(sending, 0)
		},
		"memory beyond the end": func(g *driver) {
			g.describe(sending, 0, guestBase+memoryBytes-10, 100, 0, 0)
			g.offer(sending, 0)
		},
		"the end of all addresses": func(g *driver) {
			g.describe(sending, 0, ^uint64(0)-5, 100, 0, 0)
			g.offer(sending, 0)
		},
		"a descriptor outside": func(g *driver) { g.offer(sending, ringSize) },
		"a chain that leads outside": func(g *driver) {
			g.describe(sending, 0, guestBase, 10, descNext, 60000)
			g.offer(sending, 0)
		},
		"tables within tables": func(g *driver) {
			g.describe(sending, 0, guestBase+sending*ringSpace, 2*descSize, descIndirect, 0)
			g.offer(sending, 0)
		},
		"half a table": func(g *driver) {
			g.describe(sending, 0, guestBase+buffersAt, descSize+3, descIndirect, 0)
			g.offer(sending, 0)
		},
		"an index from nowhere": func(g *driver) {
			g.next[sending] = 9999
			g.offer(sending, 0)
			g.kick[sending].Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
		},
	} {
		t.Run(name, func(t *testing.T) {
			guest := connect(t, path, 2000, usual)
			do(guest)
			guest.c.SetReadDeadline(time.Now().Add(soon))
			if n, err := guest.c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("the device took it: %d, %v", n, err)
			}
		})
	}
	guest := connect(t, path, 2000, usual)
	guest.send(0, make([]byte, HeaderSize), frameOf(60), 1<<20)
	select {
	case <-got:
	case <-time.After(soon):
		t.Fatal("no guest has a network any more")
	}
}

func TestMemoryThatIsNotAllThere(t *testing.T) {
	_, path := device(t, func([]byte) {})
	guest := connect(t, path, 2000, usual)
	guest.message(setMemTable, flagNeedReply, append(u32(1, 0), u64(guestBase, memoryBytes+1, userBase, 0)...), guest.file)
	if r := guest.answer(setMemTable); r[0] == 0 {
		t.Fatal("a region beyond the end of its file was taken")
	}
}

// BenchmarkFrames passes frames from one guest's memory to another's, as a
// switch does for guests of one host.
func BenchmarkFrames(b *testing.B) {
	for _, size := range []int{1514, 65294} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			to, toPath := device(b, func([]byte) {})
			_, fromPath := device(b, func(f []byte) { give(to, f) })
			sender, receiver := connect(b, fromPath, 2000, usual), connect(b, toPath, 4096, usual)
			receiver.room(ringSize)
			frame := frameOf(size)
			for i := range uint16(ringSize / 2) {
				sender.send(i, make([]byte, HeaderSize), frame, 4096)
			}
			b.SetBytes(int64(size))
			b.ResetTimer()
			for range b.N {
				if head, _, ok := sender.done(sending, soon); ok {
					sender.offer(sending, uint16(head))
				}
				before := receiver.seen[receiving]
				if _, ok := receiver.receive(soon); !ok {
					b.Fatal("a frame is lost")
				}
				receiver.room(int(receiver.seen[receiving] - before))
			}
		})
	}
}
