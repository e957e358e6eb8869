package vhost

import (
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dirty is the hypervisor's map of the pages that changed while it copies the
// guest's memory, one bit for each page.
type dirty []byte

const pageSize = 4096

func newDirty(f *os.File, size, offset uint64) (dirty, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size == 0 || offset%pageSize != 0 || offset+size < size || info.Size() < int64(offset+size) {
		return nil, errors.New("a map of dirty pages that is not all there")
	}
	return unix.Mmap(int(f.Fd()), int64(offset), int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// mark notes that n bytes at an address of the guest's changed.
func (d dirty) mark(address uint64, n int) {
	if n == 0 {
		return
	}
	for page := address / pageSize; page <= (address+uint64(n)-1)/pageSize; page++ {
		word := page / 32 * 4
		if word+4 > uint64(len(d)) {
			return
		}
		atomic.OrUint32((*uint32)(unsafe.Pointer(&d[word])), 1<<(page%32)) // within the mapping
	}
}
