package buffer

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"slices"
)

// indexHead is the size of what is before the caller's data in the file of an index: a
// checksum, the number of a record, and the segment and offset behind that record. An index
// is what records up to that number amount to, so that they need not be replayed.
const indexHead = 4 + 3*8

// mostIndex bounds an index, in bytes: its user alone writes it.
const mostIndex = 1 << 40

// start is where replaying begins.
type start struct {
	seq, segment uint64
	at           int64
}

func (l *Log) readIndex(o Options) (from start, err error) {
	raw, err := l.dir.ReadFile(indexName, mostIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	if len(raw) < indexHead || crc32.Checksum(raw[4:], castagnoli) != binary.LittleEndian.Uint32(raw) {
		return from, errors.New("the index does not have its checksum")
	}
	from.seq, from.segment = binary.LittleEndian.Uint64(raw[4:]), binary.LittleEndian.Uint64(raw[12:])
	from.at = int64(binary.LittleEndian.Uint64(raw[20:])) // written the same way
	l.indexes, l.indexAt = 1, Position{Segment: from.segment, At: from.at}
	return from, o.Index(raw[indexHead:])
}

// WriteIndex replaces the index by data, which stand for all records up to that of a
// number. Segments that neither hold a later record nor are in use are removed, once all copies have them.
func (l *Log) WriteIndex(seq uint64, data []byte, inUse func(segment uint64) bool) error {
	// The index may be newer than the last sync of the records.
	if err := l.Sync(seq); err != nil {
		return err
	}
	l.mu.Lock()
	segment, at := l.current.number, l.current.size
	l.mu.Unlock()
	raw := binary.LittleEndian.AppendUint64(make([]byte, 4, indexHead+len(data)), seq)
	raw = binary.LittleEndian.AppendUint64(raw, segment)
	raw = binary.LittleEndian.AppendUint64(raw, uint64(at)) // read back the same way
	raw = append(raw, data...)
	binary.LittleEndian.PutUint32(raw, crc32.Checksum(raw[4:], castagnoli))
	if err := l.dir.WriteFile(indexName, raw, 0o600); err != nil {
		return err
	}
	l.syncing.Lock() // no segment is closed while it is synced
	defer l.syncing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq != seq {
		return errors.New("records were written beside the index") // a mistake of the caller
	}
	l.unindexed = 0
	l.indexes, l.indexAt = l.indexes+1, Position{Segment: segment, At: at}
	if l.current.size > 0 && !inUse(l.current.number) {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	var errs []error
	for number, s := range l.segments {
		if s == l.current || inUse(number) || l.lacked(number) {
			continue
		}
		if err := l.dir.Unlink(name(number)); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, s.f.Close())
		delete(l.segments, number)
		l.size -= s.size
	}
	return errors.Join(errs...)
}

// Unindexed is how many bytes of records an Open would replay.
func (l *Log) Unindexed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unindexed
}

// Segments gives the numbers and sizes of the segments, oldest first.
func (l *Log) Segments() (numbers []uint64, sizes map[uint64]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sizes = map[uint64]int64{}
	for number, s := range l.segments {
		numbers = append(numbers, number)
		sizes[number] = s.size
	}
	slices.Sort(numbers)
	return numbers, sizes
}
