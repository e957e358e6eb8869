package ring

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// TestEntriesPassARing: what is written is read, over the end of the ring, and a full ring takes no more.
func TestEntriesPassARing(t *testing.T) {
	memory := Ring(make([]byte, message.RingBytes))
	w, r := Writer{Ring: memory}, Reader{Ring: memory}
	random := rand.New(rand.NewPCG(1, 2))
	var waiting [][]byte
	full := 0
	for n := range 3000 {
		text := make([]byte, random.IntN(Fragment))
		for i := range text {
			text[i] = byte(n)
		}
		e := message.Entry{Opcode: message.EntrySend, Bytes: uint32(len(text)), Request: uint64(n)}
		switch err := w.Put(e, text); {
		case errors.Is(err, ErrFull):
			full++
		case err != nil:
			t.Fatal(err)
		default:
			waiting = append(waiting, text)
		}
		if random.IntN(3) > 0 && len(waiting) > 0 {
			got, raw, is, err := r.Next()
			if !is || err != nil || !bytes.Equal(raw[message.EntryBytes:], waiting[0]) || got.Opcode != message.EntrySend {
				t.Fatalf("entry %+v, %v, %v", got, is, err)
			}
			r.Consume(got.Bytes)
			waiting = waiting[1:]
		}
	}
	if full == 0 {
		t.Error("the ring was never full")
	}
}

// FuzzReader: no content of a ring is believed.
func FuzzReader(f *testing.F) {
	f.Add(uint64(64), []byte{1})
	f.Add(^uint64(0), []byte{0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, head uint64, data []byte) {
		memory := Ring(make([]byte, message.RingBytes))
		copy(memory[message.RingEntries:], data)
		memory.store(message.RingHead, head)
		r := Reader{Ring: memory}
		for range 100000 {
			e, raw, is, err := r.Next()
			if err != nil || !is {
				return
			}
			if len(raw) != message.EntryBytes+int(e.Bytes) {
				t.Fatalf("%d bytes of an entry with %d", len(raw), e.Bytes)
			}
			r.Consume(e.Bytes)
		}
	})
}

// FuzzInbox: nor that of an inbox.
func FuzzInbox(f *testing.F) {
	f.Add(uint64(0), []byte{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, n uint64, data []byte) {
		box := Inbox(make([]byte, message.InboxBytes))
		copy(box[message.InboxEntries:], data)
		if header, text, is := box.Next(n); is && (len(header) != DatagramHeader || len(text) > message.InboxMessage) {
			t.Fatalf("%d and %d bytes", len(header), len(text))
		}
		box.Put(make([]byte, DatagramHeader), data[:min(len(data), message.InboxMessage)])
	})
}

func TestMessagesPassAnInbox(t *testing.T) {
	box := Inbox(make([]byte, message.InboxBytes))
	header := make([]byte, DatagramHeader)
	var next uint64
	for round := range 5 {
		for n := range message.InboxSlots {
			if !box.Put(header, []byte{byte(n), byte(round)}) {
				t.Fatalf("message %d of round %d has no room", n, round)
			}
		}
		if box.Put(header, nil) {
			t.Fatal("a full inbox takes a message")
		}
		for n := range message.InboxSlots {
			_, text, is := box.Next(next)
			if !is || !bytes.Equal(text, []byte{byte(n), byte(round)}) {
				t.Fatalf("message %d of round %d: %v, %v", n, round, text, is)
			}
			box.Release(next)
			next++
		}
		if _, _, is := box.Next(next); is {
			t.Fatal("an empty inbox has a message")
		}
	}
}
