package template

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Content identifies the content of a file by its blocks that are not zero. Holes for the
// others do not change it.
type Content struct {
	Size int64  `json:"size"`
	Sum  uint32 `json:"sum"` // CRC-32C: against damage, not against enemies
}

// blockSize is a page of memory.
const blockSize = 4096

// ReadBlocks returns the content of a file, and calls do, if not nil, for each run of blocks
// that are not zero.
func ReadBlocks(f *os.File, do func(at int64, run []byte) error) (Content, error) {
	info, err := f.Stat()
	if err != nil {
		return Content{}, err
	}
	c := Content{Size: info.Size()}
	table, zero := crc32.MakeTable(crc32.Castagnoli), make([]byte, blockSize)
	buf := make([]byte, 256*blockSize)
	for at := int64(0); at < c.Size; {
		from, to, err := nextData(f, at, c.Size)
		if err != nil {
			return Content{}, err
		}
		if at = from; from == to {
			break
		}
		n, err := f.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
		if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
			return Content{}, err
		}
		begin := 0 // of the run
		for i := 0; i < n; i += blockSize {
			block := buf[i:min(i+blockSize, n)]
			if bytes.Equal(block, zero[:len(block)]) {
				if err := pass(do, at, buf, begin, i); err != nil {
					return Content{}, err
				}
				begin = i + len(block)
				continue
			}
			c.Sum = crc32.Update(c.Sum, table, binary.LittleEndian.AppendUint64(nil, uint64(at)+uint64(i)))
			c.Sum = crc32.Update(c.Sum, table, block)
		}
		if err := pass(do, at, buf, begin, n); err != nil {
			return Content{}, err
		}
		at += int64(n)
	}
	return c, nil
}

func pass(do func(int64, []byte) error, at int64, buf []byte, begin, end int) error {
	if do == nil || begin >= end {
		return nil
	}
	return do(at+int64(begin), buf[begin:end])
}

// nextData returns the whole blocks around the next piece of a file that is no
// hole; from is to where there is none.
func nextData(f *os.File, at, size int64) (from, to int64, err error) {
	from, err = unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if err == nil {
		to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	}
	if err != nil {
		return 0, 0, err
	}
	return max(at, from/blockSize*blockSize), min(size, (to+blockSize-1)/blockSize*blockSize), nil
}

// CopyBlocks makes a file with the content of another, and with as many holes
// as it can have.
func CopyBlocks(from *os.File, to string) (Content, error) {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return Content{}, err
	}
	c, err := fillBlocks(out, from)
	return c, errors.Join(err, out.Close())
}

// fillBlocks copies a file into an empty one.
func fillBlocks(out, from *os.File) (Content, error) {
	c, err := ReadBlocks(from, func(at int64, run []byte) error {
		_, err := out.WriteAt(run, at)
		return err
	})
	if err == nil {
		err = out.Truncate(c.Size)
	}
	return c, err
}
