package erofs

import (
	"encoding/binary"
	"errors"
	"sort"
	"strings"
)

// paxPrefix marks an extended attribute among a tar member's records.
const paxPrefix = "SCHILY.xattr."

// xattrHeader is the size of what precedes an inode's attributes.
const xattrHeader = 12

// prefixes of names, which are stored as numbers.
func prefixes() map[string]byte {
	return map[string]byte{"user.": 1, "trusted.": 4, "security.": 6}
}

// encodeXattrs gives a file's extended attributes as they follow its inode.
func encodeXattrs(records map[string]string) ([]byte, error) {
	var names []string
	for record := range records {
		if strings.HasPrefix(record, paxPrefix) {
			names = append(names, record)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	sort.Strings(names)
	b := make([]byte, xattrHeader)
	for _, record := range names {
		name, value := strings.TrimPrefix(record, paxPrefix), records[record]
		index, rest := byte(0), name
		for prefix, number := range prefixes() {
			if after, ok := strings.CutPrefix(name, prefix); ok {
				index, rest = number, after
			}
		}
		if index == 0 {
			continue // of no use to who mounts it
		}
		if len(rest) > 255 || len(value) > 1<<16-1 {
			return nil, errors.New("an extended attribute is too long")
		}
		b = append(b, byte(len(rest)), index)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
		b = append(b, rest...)
		b = append(b, value...)
		b = append(b, make([]byte, (4-len(b)%4)%4)...)
	}
	if len(b) == xattrHeader {
		return nil, nil
	}
	return b, nil
}

// xattrCount is the size of the attributes as an inode reports it.
func xattrCount(raw []byte) uint16 {
	if len(raw) == 0 {
		return 0
	}
	return uint16((len(raw)-xattrHeader)/4 + 1)
}
