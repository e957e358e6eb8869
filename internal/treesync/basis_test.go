package treesync

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/chunk"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// over carries from to to, over what basis has, and gives the bytes that
// travelled either way.
func over(t *testing.T, from, to, basis string) (there, back int64) {
	t.Helper()
	c := carry(t, from, to, basis, nil)
	must(t, c.err)
	return c.there, c.back
}

// carried is how a tree has travelled.
type carried struct {
	there, back int64
	basis       *Basis
	err         error
}

// carry is over for what may fail; progress receives the bytes that are sent.
func carry(t *testing.T, from, to, basis string, progress func(int64)) carried {
	t.Helper()
	b, err := NewBasis(t.Context(), to, basis)
	must(t, err)
	c := carried{basis: b}
	near, far := net.Pipe()
	sent := make(chan error, 1)
	go func() {
		defer far.Close()
		sender := counting{far, &c.back}
		known, err := Agree(sender, from)
		if err == nil {
			err = SendOver(t.Context(), sender, from, known, progress)
		}
		sent <- err
	}()
	if c.err = b.Keyed().SendKnown(t.Context(), counting{near, &c.there}); c.err == nil {
		c.err = ReceiveOver(t.Context(), near, to, b)
	}
	near.Close()
	if err := <-sent; c.err == nil {
		c.err = err
	}
	return c
}

// counting is an end of a connection that counts what is written.
type counting struct {
	net.Conn
	n *int64
}

func (c counting) Write(b []byte) (int, error) {
	*c.n += int64(len(b))
	return c.Conn.Write(b)
}

func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b) //nolint:errcheck // it cannot fail
	return b
}

// TestOnlyWhatChangedTravels: of what is 1 % different, less than 5 %.
func TestOnlyWhatChangedTravels(t *testing.T) {
	const size = 64 << 20
	for name, change := range map[string]func(b []byte) []byte{
		"nothing":   func(b []byte) []byte { return b },
		"a stretch": func(b []byte) []byte { copy(b[size/3:], noise(size/100, 2)); return b },
		"pages everywhere": func(b []byte) []byte {
			r := rand.New(rand.NewPCG(1, 2))
			for i := range size / 100 / 4096 {
				copy(b[r.IntN(size/4096)*4096:], noise(4096, byte(i)))
			}
			return b
		},
		"inserted in front": func(b []byte) []byte { return append(noise(size/100, 3), b...) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			was, is, got := filepath.Join(dir, "was"), filepath.Join(dir, "is"), filepath.Join(dir, "got")
			for _, d := range []string{was, is} {
				must(t, os.Mkdir(d, 0o755))
			}
			data := noise(size, 1)
			must(t, os.WriteFile(filepath.Join(was, "state"), data, 0o600))
			data = change(data)
			must(t, os.WriteFile(filepath.Join(is, "renamed"), data, 0o640))
			must(t, os.WriteFile(filepath.Join(is, "small"), []byte("new"), 0o600))
			there, back := over(t, is, got, was)
			if there+back > size/20 {
				t.Errorf("%d bytes went there and %d came back, of %d", there, back, size)
			}
			same(t, describe(t, is), describe(t, got))
			if now, err := os.ReadFile(filepath.Join(got, "renamed")); err != nil || !bytes.Equal(now, data) {
				t.Errorf("it is not what was sent: %v", err)
			}
		})
	}
}

// Names under one key are no names under another, and alike for alike.
func TestNamesDependOnTheKey(t *testing.T) {
	data, other := noise(5000, 1), noise(5000, 2)
	seen := map[sum]bool{}
	for _, c := range []chunker{{}, newNameKey().chunker(chunk.SmallestBits), newNameKey().chunker(chunk.SmallestBits)} {
		var a, again, b sum
		c.name(&a, data)
		c.name(&again, bytes.Clone(data))
		c.name(&b, other)
		if a != again || a == b || seen[a] {
			t.Errorf("%x, %x, %x", a, again, b)
		}
		seen[a] = true
	}
}

// A whole tree arrives over any basis: its own, another, an empty one.
func TestRoundTripOverABasis(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	makeTree(t, from)
	other := filepath.Join(dir, "other")
	must(t, os.MkdirAll(filepath.Join(other, "empty"), 0o755))
	must(t, os.WriteFile(filepath.Join(other, "x"), noise(100_000, 9), 0o600))
	for name, basis := range map[string]string{"itself": from, "another": other, "nothing": filepath.Join(other, "empty")} {
		to := filepath.Join(dir, "to "+name)
		over(t, from, to, basis)
		same(t, describe(t, from), describe(t, to))
	}
}

// What arrived before the way broke, or the receiver was killed, does not travel
// again.
func TestABrokenTransferGoesOn(t *testing.T) {
	const size = 16 << 20
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	must(t, os.Mkdir(from, 0o755))
	for i := range 4 {
		must(t, os.WriteFile(filepath.Join(from, string(rune('a'+i))), noise(size/4, byte(i)), 0o600))
	}
	for name, cutAt := range map[string]func(stream []byte){
		"the way broke": func(stream []byte) {
			if err := ReceiveOver(t.Context(), bytes.NewReader(stream), to, nil); !core.IsKind(err, core.Lost) {
				t.Errorf("got %v", err)
			}
		},
		"the receiver was killed": func(stream []byte) {
			tr := &tree{ctx: t.Context(), root: to, links: map[uint64]linkSource{}}
			if decode(t.Context(), bytes.NewReader(stream), tr, nil) == nil {
				t.Error("half a stream is whole")
			}
			for _, f := range tr.stack { // as the kernel does
				unix.Close(f.fd)
			}
			for _, p := range tr.parts {
				unix.Close(p.lock)
				unix.Close(p.dir)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var whole bytes.Buffer
			must(t, Send(t.Context(), &whole, from, nil))
			cutAt(whole.Bytes()[:size*7/8])
			if _, err := os.Lstat(to); err == nil {
				t.Error("half of it is there")
			}
			if _, back := over(t, from, to, filepath.Join(dir, "none")); back > size/4 {
				t.Errorf("%d bytes of %d travelled again", back, size)
			}
			same(t, describe(t, from), describe(t, to))
			noLeftovers(t, dir)
			must(t, fsutil.RemoveAll(to))
		})
	}
}

// Where the place is not ours, what arrived counts, and what is there does not.
func TestWhatIsLeftOfATransfer(t *testing.T) {
	const size = 16 << 20
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "results", "to")
	must(t, os.WriteFile(from, noise(size, 1), 0o600))
	must(t, os.Mkdir(filepath.Dir(to), 0o755))
	must(t, os.WriteFile(to, noise(size, 1), 0o600)) // what it replaces
	if left, err := BasisLeft(t.Context(), to); err != nil || left != nil {
		t.Fatalf("before anything arrived: %+v, %v", left, err)
	}
	var whole bytes.Buffer
	must(t, Send(t.Context(), &whole, from, nil))
	broken := func() {
		t.Helper()
		if err := ReceiveOver(t.Context(), bytes.NewReader(whole.Bytes()[:size*7/8]), to, nil); !core.IsKind(err, core.Lost) {
			t.Fatalf("got %v", err)
		}
	}
	broken()
	must(t, os.Remove(to))
	left, err := BasisLeft(t.Context(), to)
	must(t, err)
	ours, theirs := net.Pipe()
	sent, travelled := make(chan error, 1), int64(0)
	go func() {
		defer theirs.Close()
		sender := counting{theirs, &travelled}
		known, err := ReadKnown(sender)
		if err == nil {
			err = SendOver(t.Context(), sender, from, known, nil)
		}
		sent <- err
	}()
	must(t, left.Keyed().SendKnown(t.Context(), ours))
	must(t, ReceiveOver(t.Context(), ours, to, left))
	must(t, <-sent)
	if travelled > size/4 {
		t.Errorf("%d bytes of %d travelled again", travelled, size)
	}
	same(t, describe(t, from), describe(t, to))
	noLeftovers(t, filepath.Dir(to))
	if found, _ := filepath.Glob(filepath.Join(filepath.Dir(to), ".*")); len(found) > 0 {
		t.Errorf("left beside it: %v", found)
	}
}

func TestABasisThatChangesIsNoticed(t *testing.T) {
	dir := t.TempDir()
	was := filepath.Join(dir, "was")
	must(t, os.WriteFile(was, noise(1<<20, 1), 0o600))
	b, err := NewBasis(t.Context(), filepath.Join(dir, "to"), was)
	must(t, err)
	var reported, stream bytes.Buffer
	must(t, b.SendKnown(t.Context(), &reported))
	known, err := ReadKnown(&reported)
	must(t, err)
	must(t, SendOver(t.Context(), &stream, was, known, nil))
	must(t, os.WriteFile(was, noise(1<<20, 2), 0o600))
	to := filepath.Join(dir, "to")
	if err := ReceiveOver(t.Context(), &stream, to, b); !core.IsKind(err, core.Transient) {
		t.Errorf("got %v, want a passing error", err)
	}
	if _, err := os.Lstat(to); err == nil {
		t.Error("it was made all the same")
	}
}

func TestHostileBases(t *testing.T) {
	number := func(bits, n uint32) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, bits), n)
	}
	for name, reported := range map[string][]byte{
		"empty": nil, "tiny chunks": number(1, 0), "huge chunks": number(40, 0), "too many": number(chunk.SmallestBits, 1<<31), "cut": number(chunk.SmallestBits, 1000),
		"an offer that is cut": number(offerMark, 100), "an offer of nothing": number(offerMark, 0), "a huge offer": number(offerMark, 1<<31),
		"two offers": append(append(number(offerMark, 20), make([]byte, 20)...), append(number(offerMark, 20), make([]byte, 20)...)...),
	} {
		if _, err := ReadKnown(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(reported), io.Discard}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	same := hostile(kindOne, func(e *encoder) {
		must(t, errors.Join(e.top(""), e.record(recEntry, (&meta{kind: kindFile, name: "f", size: 10}).append(nil)),
			e.record(recSame, make([]byte, 8+len(sum{}))), e.number(recEnd, 10), e.end()))
	})
	kept := hostile(kindOne, func(e *encoder) {
		must(t, errors.Join(e.top(""), e.enter(&meta{kind: kindDir, mode: 0o755}), e.record(recKept, []byte{0, 0, 0, 0, 1, 0, 0, 0}), e.leave(), e.end()))
	})
	known := filepath.Join(t.TempDir(), "known")
	must(t, os.WriteFile(known, []byte("something"), 0o600))
	b, err := NewBasis(t.Context(), known)
	must(t, err)
	for name, basis := range map[string]*Basis{"no basis": nil, "an unknown chunk": b} {
		for _, stream := range [][]byte{same, kept} {
			if err := ReceiveOver(t.Context(), bytes.NewReader(stream), filepath.Join(t.TempDir(), "x"), basis); err == nil {
				t.Errorf("%s: taken", name)
			}
		}
	}
}

func BenchmarkBasis(b *testing.B) {
	dir := b.TempDir()
	must(b, os.WriteFile(filepath.Join(dir, "x"), noise(256<<20, 1), 0o600))
	b.SetBytes(256 << 20)
	for b.Loop() {
		basis, err := NewBasis(b.Context(), dir+"/none", dir)
		must(b, err)
		must(b, basis.read(b.Context()))
	}
}
