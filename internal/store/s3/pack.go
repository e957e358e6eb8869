package s3

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/treesync"
)

// A pack is chunks, one after the other; then its index, which has for each
// the name (16 bytes) and the length (4 bytes); then how many there are (4
// bytes), and the magic. It is named after its index, whose names stand for the
// content of the chunks.
const (
	packBytes  = 16 << 20 // a pack is full
	nameBytes  = len(treesync.Name{})
	entryBytes = nameBytes + 4
	packMagic  = "BEEpk1\r\n"
	footBytes  = 4 + len(packMagic)
	// mostObject bounds a pack, or a piece of a tree: the largest chunk may fill one alone.
	mostObject = 256 << 20
)

// chunkAt is where a chunk lies.
type chunkAt struct {
	pack   uint32
	offset uint32
	length uint32
}

// pack is one that is being filled.
type pack struct {
	data  []byte
	index []byte
}

func (p *pack) add(name treesync.Name, data []byte) (offset int) {
	offset = len(p.data)
	p.data = append(p.data, data...)
	p.index = append(p.index, name[:]...)
	p.index = binary.LittleEndian.AppendUint32(p.index, uint32(len(data)))
	return offset
}

// finish gives the object and its name below packs.
func (p *pack) finish(bits int) (name string, raw []byte) {
	raw = append(p.data, p.index...)
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(p.index)/entryBytes))
	return strconv.Itoa(bits) + "-" + digest(p.index), append(raw, packMagic...)
}

// ofSite is the end of the names of objects that hosts of a site have stored: nobody has compared what
// is in them with their names.
func ofSite(site string) string { return "." + digest([]byte(site))[:16] }

// contentOf is the part of an object's name that stands for its content.
func contentOf(name string) string {
	content, _, _ := strings.Cut(name, ".")
	return content
}

// isFor reports whether checkpoints of a site may use an object: no hosts of another site have stored it.
func isFor(site, name string) bool {
	content := contentOf(name)
	return name == content || name == content+ofSite(site)
}

// bitsOf reports by its name for which size of chunks a pack was made.
func bitsOf(name string) int {
	text, _, _ := strings.Cut(name, "-")
	bits, _ := strconv.Atoi(text) // 0 is none
	return bits
}

// parseIndex reads the index off the end of a pack, of which tail are the last
// bytes. Where it needs more of them, it gives how many.
func parseIndex(name string, size int64, tail []byte) (index []byte, need int64, err error) {
	wrong := func() ([]byte, int64, error) { return nil, 0, damaged("a pack is not what its name says", name) }
	if len(tail) < footBytes || string(tail[len(tail)-len(packMagic):]) != packMagic {
		return wrong()
	}
	n := int64(binary.LittleEndian.Uint32(tail[len(tail)-footBytes:]))
	whole := n*int64(entryBytes) + int64(footBytes)
	if whole > size || size > mostObject {
		return wrong()
	}
	if whole > int64(len(tail)) {
		return nil, whole, nil
	}
	index = tail[int64(len(tail))-whole : len(tail)-footBytes]
	if contentOf(name) != fmt.Sprintf("%d-%s", bitsOf(name), digest(index)) {
		return wrong()
	}
	// Only then has each chunk a place in the pack.
	if eachEntry(index, func(treesync.Name, uint32, uint32) {}) != size-whole {
		return wrong()
	}
	return index, 0, nil
}

// eachEntry reports every chunk of an index.
func eachEntry(index []byte, do func(name treesync.Name, offset, length uint32)) (total int64) {
	for ; len(index) >= entryBytes; index = index[entryBytes:] {
		length := binary.LittleEndian.Uint32(index[nameBytes:])
		do(treesync.Name(index[:nameBytes]), uint32(total), length)
		total += int64(length)
	}
	return total
}
