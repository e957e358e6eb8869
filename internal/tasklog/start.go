package tasklog

import (
	"encoding/binary"
	"io"
	"os"
)

// Start returns the offset of a frame about so many bytes before an offset at which a frame
// ends; end 0 is the end of the file. Only so much of the file is read, and a frame more.
func Start(path string, end, bytes int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	torn := end <= 0 || end >= info.Size()
	if torn {
		end = info.Size()
	}
	want := end - bytes
	if want <= 0 {
		return 0, nil
	}
	first := max(want-headerSize-maxData, 0)
	raw := make([]byte, end-first)
	if _, err := io.ReadFull(io.NewSectionReader(f, first, end-first), raw); err != nil {
		return 0, err
	}
	starts := frameStarts(raw, false)
	if torn && starts == nil {
		starts = frameStarts(raw, true)
	}
	at := end // nothing in it is a frame
	for _, start := range starts {
		if at == end || first+start <= want {
			at = first + start
		}
	}
	return at, nil
}

// frameStarts returns the offsets of frames in a piece of a log that begins within one. From
// each of them, frame follows on frame up to the end. Torn: the last one may be incomplete.
func frameStarts(raw []byte, torn bool) []int64 {
	leads := make([]bool, len(raw)+1) // to the end
	leads[len(raw)] = true
	var starts []int64
	for at := len(raw) - headerSize; at >= 0; at-- {
		frame, length := ofHeader(raw[at:])
		if frame.Stream != Stdout && frame.Stream != Stderr || length > maxData || !likely(raw[at+8:]) {
			continue
		}
		next := at + headerSize + int(length)
		leads[at] = next > len(raw) && torn || next <= len(raw) && leads[next]
	}
	for at, does := range leads[:len(raw)] {
		if does {
			starts = append(starts, int64(at))
		}
	}
	return inOneChain(raw, starts)
}

// inOneChain returns the first offset and those that follow from it. Others are in the data of
// a frame.
func inOneChain(raw []byte, starts []int64) (chain []int64) {
	for _, at := range starts {
		if len(chain) > 0 {
			last := chain[len(chain)-1]
			if at != last+headerSize+int64(binary.BigEndian.Uint32(raw[last+4:])) {
				continue
			}
		}
		chain = append(chain, at)
	}
	return chain
}

// likely reports whether a time of a header is of the years in which there is BEE.
func likely(raw []byte) bool {
	const from, to = 1_600_000_000_000_000_000, 6_000_000_000_000_000_000 // 2020 to 2160
	at := int64(binary.BigEndian.Uint64(raw))
	return at > from && at < to
}
