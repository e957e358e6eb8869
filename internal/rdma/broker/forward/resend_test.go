package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestSent: whenever connections break, and whatever the other side had taken by then, each frame comes
// once and in order.
func TestSent(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var s sent
		var there []uint64 // what the other side has taken
		numbers := func(frames []byte) (list []uint64) {
			for ; len(frames) > 0; frames = frames[frameBytes(frames):] {
				list = append(list, binary.LittleEndian.Uint64(frames[5:]))
			}
			return list
		}
		last := uint64(0)
		for range 100 {
			switch r.IntN(3) {
			case 0, 1:
				out := s.buffer()
				for range r.IntN(4) {
					last++
					var at int
					out, at = begin(out, frameEntry)
					out = binary.LittleEndian.AppendUint64(out, last)
					out = finish(append(out, make([]byte, r.IntN(40))...), at)
				}
				frames := numbers(out)
				if s.keep(out, len(out)); r.IntN(3) > 0 && uint64(len(there)) == last-uint64(len(frames)) {
					there = append(there, frames...)
				}
			default:
				again, err := s.again(uint64(len(there)))
				if err != nil {
					t.Fatal(err)
				}
				var list []uint64
				for _, frames := range again {
					list = append(list, numbers(frames)...)
				}
				there = append(there, list[:r.IntN(len(list)+1)]...)
			}
		}
		for i, n := range there {
			if n != uint64(i+1) {
				t.Fatalf("seed %d: the other side has %v", seed, there)
			}
		}
		if err := s.take(last + 1); !errors.Is(err, errTaken) {
			t.Errorf("more than was sent: %v", err)
		}
		if err := s.take(last); err != nil || s.bytes != 0 || len(s.batches) != 0 {
			t.Errorf("%d bytes are left, %v", s.bytes, err)
		}
	}
}

// breaking is a connection that breaks after so many bytes.
type breaking struct {
	net.Conn
	left int
}

func (b *breaking) Write(raw []byte) (int, error) {
	if b.left -= len(raw); b.left < 0 {
		n, err := b.Conn.Write(raw[:len(raw)+max(b.left, -len(raw))])
		return n, errors.Join(err, b.Close())
	}
	return b.Conn.Write(raw)
}

// wire makes a connection.
func wire(t *testing.T) (conns [2]net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if conns[1], err = net.Dial("tcp4", l.Addr().String()); err == nil {
		conns[0], err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	return conns
}

// kick has a machine look for what its program has written.
func (m *machine) kick() {
	m.far.o.Host.Lock()
	defer m.far.o.Host.Unlock()
	for _, l := range m.far.links {
		l.kick()
	}
}

// joined are machines whose connections break all the time.
func joined(t *testing.T, r *rand.Rand) (a, b *machine) {
	t.Helper()
	a, b = newApart(t, 0, 100), newApart(t, 1, 200)
	for _, m := range []*machine{a, b} {
		m.connect(t)
		for _, list := range m.far.waiting {
			m.pair = list[0]
		}
	}
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		for t.Context().Err() == nil {
			conns := wire(t)
			over := make(chan struct{}, 2)
			for i, m := range []*machine{a, b} {
				conn := &breaking{conns[i], 2000 + r.IntN(400_000)}
				go func() {
					_ = m.far.Serve(t.Context(), conn, 1-i) // how it breaks differs
					over <- struct{}{}
				}()
			}
			<-over
			<-over
		}
	}()
	return a, b
}

// TestBreaks: messages and atomic operations are carried out once and in order, however often the connection breaks.
func TestBreaks(t *testing.T) {
	const messages, additions = 3000, 1500
	a, b := joined(t, rand.New(rand.NewPCG(1, 4)))
	region, _, err := b.session.CreateRegion(4096)
	if err != nil {
		t.Fatal(err)
	}
	mr, err := b.session.Register(&message.Register{PD: b.pd, Access: broker.RemoteAtomic | 1, Length: 4096}, []message.Extent{{Bytes: 4096, Region: region}})
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	w := ring.Writer{Ring: a.pair.tx.Ring} // the goroutine's, until it has ended
	go func() {
		r := rand.New(rand.NewPCG(2, 4))
		text := make([]byte, ring.Fragment)
		put := func(e message.Entry, payload []byte) error {
			for {
				err := w.Put(e, payload)
				if a.kick(); !errors.Is(err, ring.ErrFull) || t.Context().Err() != nil {
					return err
				}
				time.Sleep(100 * time.Microsecond) // as a program that polls
			}
		}
		for n := range uint64(messages) {
			size := 8 + r.IntN(ring.Fragment-8)
			binary.LittleEndian.PutUint64(text, n)
			if err := put(message.Entry{Opcode: message.EntrySend, Bytes: uint32(size), Total: uint64(size), Request: n + 1}, text[:size]); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	reader := ring.Reader{Ring: b.pair.rx.Ring}
	for n := uint64(0); n < messages; {
		e, raw, is, err := reader.Next()
		if err != nil || t.Context().Err() != nil {
			t.Fatal(n, err)
		}
		if !is {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		if got := binary.LittleEndian.Uint64(raw[message.EntryBytes:]); got != n {
			t.Fatalf("message %d comes where %d is expected", got, n)
		}
		reader.Consume(e.Bytes)
		b.kick()
		n++
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if done, _ := a.pair.tx.Ring.Done(); done != messages {
			return fmt.Errorf("%d requests are over", done)
		}
		return nil
	})
	answers := ring.Reader{Ring: a.pair.rx.Ring}
	open, asked := 0, 0
	for answered := uint64(0); answered < additions; {
		for ; open < 100 && asked < additions; asked++ {
			if err := w.Put(message.Entry{Opcode: message.EntryAtomicAdd, Total: 8, Key: mr.Key, Operand: [2]uint64{1}, Request: messages + 1 + uint64(asked)}, nil); err != nil {
				break
			}
			open++
		}
		a.kick()
		e, raw, is, err := answers.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !is {
			time.Sleep(100 * time.Microsecond)
			continue
		}
		if old := binary.LittleEndian.Uint64(raw[message.EntryBytes:]); e.Status != 0 || old != answered {
			t.Fatalf("addition %d found %d, status %d", answered, old, e.Status)
		}
		answers.Consume(e.Bytes)
		answered++
		open--
	}
	if len(a.process.events)+len(b.process.events) > 0 {
		t.Errorf("events %v and %v", a.process.events, b.process.events)
	}
}
