package fabric

import "encoding/binary"

// Where things are in packets, and what they say (RFC 791, 8200, 768, 9293).
const (
	typeIPv4, typeIPv6, typeVLAN = 0x0800, 0x86dd, 0x8100
	protocolTCP, protocolUDP     = 6, 17
	headerIPv4, headerIPv6       = 20, 40
	portsSize                    = 4
)

// buckets are what flows are put into.
const buckets = 64

// bucketOf puts frames into buckets so that those of one flow, whose order
// matters, are in one: the same two hardware addresses and, with IP, the same
// addresses and ports. Pieces of packets have no ports, but for the first one.
func bucketOf(ethernet []byte) int {
	h := mix(uint64(binary.BigEndian.Uint32(ethernet)), binary.BigEndian.Uint64(ethernet[4:]))
	kind, p := binary.BigEndian.Uint16(ethernet[12:]), ethernet[ethernetHeader:]
	if kind == typeVLAN && len(p) >= 4 {
		kind, p = binary.BigEndian.Uint16(p[2:]), p[4:]
	}
	switch {
	case kind == typeIPv4 && len(p) >= headerIPv4:
		h = mix(h, binary.BigEndian.Uint64(p[12:]))
		whole := binary.BigEndian.Uint16(p[6:])&0x3fff == 0
		h = mixPorts(h, p[9], whole, p[min(int(p[0]&15)*4, len(p)):])
	case kind == typeIPv6 && len(p) >= headerIPv6:
		for i := 8; i < headerIPv6; i += 8 {
			h = mix(h, binary.BigEndian.Uint64(p[i:]))
		}
		h = mixPorts(h, p[6], true, p[headerIPv6:])
	}
	return int(h >> 32 % buckets)
}

func mixPorts(h uint64, protocol byte, whole bool, p []byte) uint64 {
	if whole && (protocol == protocolTCP || protocol == protocolUDP) && len(p) >= portsSize {
		h = mix(h, uint64(binary.BigEndian.Uint32(p)))
	}
	return h
}

// mix is a step of a hash: the finalizer of SplitMix64, over both.
func mix(h, more uint64) uint64 {
	h = (h ^ more) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
