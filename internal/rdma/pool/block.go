package pool

import "encoding/binary"

// Places and values of the information block, by which Linux offers persistent memory as a device to map (struct
// nd_pfn_sb of drivers/nvdimm/pfn.h, version 1.4).
const (
	blockAt       = 4096
	blockBytes    = 4096
	signature     = "NVDIMM_DAX_INFO\x00"
	placeID       = 16
	placeVersion  = 52
	placeData     = 56
	placePages    = 64
	placeMode     = 72
	placeAlign    = 84
	placePageSize = 88
	placeStruct   = 92
	placeChecksum = 4088

	inRAM      = 1  // the guest's kernel has what it knows of the pages in its own memory
	pageStruct = 64 // bytes of that, for each page
)

// block returns the block of a pool. The zero parent is that of a device without labels.
func block(size int64, id [16]byte) []byte {
	b := make([]byte, blockBytes)
	order := binary.LittleEndian
	copy(b, signature)
	copy(b[placeID:], id[:])
	order.PutUint16(b[placeVersion:], 1)
	order.PutUint16(b[placeVersion+2:], 4)
	order.PutUint64(b[placeData:], Data)
	order.PutUint64(b[placePages:], uint64(size-Data)/page)
	order.PutUint32(b[placeMode:], inRAM)
	order.PutUint32(b[placeAlign:], page)
	order.PutUint32(b[placePageSize:], page)
	order.PutUint16(b[placeStruct:], pageStruct)
	order.PutUint64(b[placeChecksum:], fletcher(b))
	return b
}

// fletcher is the checksum of Fletcher over words of 32 bits.
func fletcher(b []byte) uint64 {
	var low, high uint64
	for ; len(b) >= 4; b = b[4:] {
		low = uint64(uint32(low) + binary.LittleEndian.Uint32(b))
		high += low
	}
	return high<<32 | low
}
