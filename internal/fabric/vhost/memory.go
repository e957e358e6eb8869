package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// region is a stretch of the guest's memory, mapped here.
type region struct {
	guest, user uint64 // where it begins, for the guest and in the hypervisor
	data        []byte // what of the mapping is the region's
	mapping     []byte
}

// memory is all of the guest's memory that the hypervisor announced.
type memory []region

// regionSize is that of one region's description on the wire.
const regionSize = 32

// newMemory maps what a message describes: count and padding, 4 bytes each,
// then for each region its address in the guest, size, address in the
// hypervisor and offset in its file.
func newMemory(payload []byte, files []*os.File) (memory, error) {
	if len(payload) < 8 {
		return nil, errors.New("a memory table without regions")
	}
	n := int(binary.LittleEndian.Uint32(payload))
	if n > len(files) || len(payload) < 8+n*regionSize {
		return nil, fmt.Errorf("a memory table of %d regions with %d files in %d bytes", n, len(files), len(payload))
	}
	var m memory
	for i := range n {
		p := payload[8+i*regionSize:]
		guest, size, user, offset := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
		// A file shorter than its region would kill us at the first access.
		info, err := files[i].Stat()
		if err == nil && (size == 0 || offset+size < size || int64(offset+size) < 0 || info.Size() < int64(offset+size)) {
			err = fmt.Errorf("region of %d bytes at %d of a file of %d", size, offset, info.Size())
		}
		var mapping []byte
		if err == nil {
			mapping, err = unix.Mmap(int(files[i].Fd()), 0, int(offset+size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
		}
		if err != nil {
			m.unmap()
			return nil, fmt.Errorf("map the guest's memory: %w", err)
		}
		m = append(m, region{guest: guest, user: user, data: mapping[offset:], mapping: mapping})
	}
	return m, nil
}

func (m memory) unmap() {
	for _, r := range m {
		unix.Munmap(r.mapping)
	}
}

// at gives the memory at an address of the guest's, as far as it goes in one
// stretch, up to n bytes. It is empty where there is none.
func (m memory) at(address uint64, n int) []byte {
	for i := range m {
		r := &m[i]
		if offset := address - r.guest; offset < uint64(len(r.data)) {
			rest := r.data[offset:]
			return rest[:min(n, len(rest))]
		}
	}
	return nil
}

// whole gives n bytes at an address of the hypervisor's, aligned for atomic
// access.
func (m memory) whole(address uint64, n int) ([]byte, error) {
	for _, r := range m {
		offset := address - r.user
		if offset < uint64(len(r.data)) && uint64(n) <= uint64(len(r.data))-offset && address%4 == 0 && (r.user-r.guest)%4096 == 0 {
			return r.data[offset : offset+uint64(n)], nil
		}
	}
	return nil, fmt.Errorf("no %d bytes of the guest's memory at %#x", n, address)
}
