package treesync

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/klauspost/compress/zstd"
)

// slowly gives what was sent over a way on which a sender has to wait.
func slowly(t *testing.T, path string) []byte {
	t.Helper()
	near, far := net.Pipe()
	sent := make(chan error, 1)
	go func() {
		defer far.Close()
		sent <- Send(t.Context(), far, path, nil)
	}()
	var all bytes.Buffer
	for {
		_, err := io.CopyN(&all, near, 64<<10)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		time.Sleep(4 * time.Millisecond) // as a slow way does
	}
	must(t, <-sent)
	return all.Bytes()
}

func TestWhatHasToWaitIsCompressed(t *testing.T) {
	const size = 16 << 20
	for name, data := range map[string]struct {
		b    []byte
		most int // bytes that travel
	}{
		"text":  {[]byte(strings.Repeat("0.123456 1.234567 2.345678\n", size/27)), size * 3 / 4},
		"noise": {noise(size, 1), size + size/1000},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
			must(t, os.Mkdir(from, 0o755))
			must(t, os.WriteFile(filepath.Join(from, "state"), data.b, 0o640))
			stream := slowly(t, from)
			if len(stream) > data.most {
				t.Errorf("%d bytes travelled", len(stream))
			}
			var relayed bytes.Buffer
			must(t, Relay(&relayed, bytes.NewReader(stream)))
			must(t, Receive(t.Context(), &relayed, to))
			same(t, describe(t, from), describe(t, to))
			damaged := bytes.Clone(stream)
			damaged[len(damaged)/2] ^= 4
			if err := Receive(t.Context(), bytes.NewReader(damaged), filepath.Join(dir, "damaged")); !core.IsKind(err, core.Transient) {
				t.Errorf("a damaged stream: %v", err)
			}
			noLeftovers(t, dir)
		})
	}
}

// TestWhatTakesLongerThanItSavesIsNotCompressed, but for one block now and then.
func TestWhatTakesLongerThanItSavesIsNotCompressed(t *testing.T) {
	var p packer
	text := []byte(strings.Repeat("0.123456 1.234567 2.345678\n", blockSize/27))
	count := func(saved time.Duration) (packed int) {
		for range 100 {
			if _, smaller := p.pack(nil, text, blockHead); smaller {
				packed++
				p.judge(time.Millisecond, saved)
			}
		}
		return packed
	}
	if n := count(0); n < 2 || n > 10 {
		t.Errorf("%d of 100 blocks were compressed on a quick way", n)
	}
	if n := count(time.Second); n < 30 {
		t.Errorf("%d of 100 blocks were compressed on a way that has become slow", n)
	}
}

func TestABlockThatGetsTooLargeIsRefused(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	must(t, err)
	large := make([]byte, 64<<20)
	packed := z.EncodeAll(large, nil)
	stream := binary.LittleEndian.AppendUint32([]byte(magic(kindOne)), packedBlock|uint32(len(packed)))
	stream = append(binary.LittleEndian.AppendUint32(stream, crc32.Checksum(large, castagnoli())), packed...)
	if err := Receive(t.Context(), bytes.NewReader(stream), filepath.Join(t.TempDir(), "to")); !core.IsKind(err, core.Transient) {
		t.Errorf("got %v", err)
	}
}

// TestASenderWhoseWayBreaksEnds: with what waits for the way, too.
func TestASenderWhoseWayBreaksEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	must(t, os.WriteFile(path, noise(8<<20, 1), 0o600))
	near, far := net.Pipe()
	sent := make(chan error, 1)
	go func() { sent <- Send(context.Background(), far, path, nil) }()
	_, err := io.CopyN(io.Discard, near, 1<<20)
	must(t, err)
	near.Close()
	if err := <-sent; !core.IsKind(err, core.Lost) {
		t.Errorf("got %v", err)
	}
}
