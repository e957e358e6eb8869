package fabric

import (
	"fmt"
	"net/netip"

	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// MaxRanks is how many guests one fabric has addresses for.
const MaxRanks = 1<<16 - 2

// MTU is the default of guests' interfaces: large, so that the cost of each
// frame counts little, and a whole number of pages.
const MTU = 65280

// Interface is what guests call theirs.
const Interface = "bee0"

// ethernetHeader is the least that a frame has.
const ethernetHeader = 14

// maxFrame bounds a frame, with the header before it where there is one.
const maxFrame = vhost.MaxFrame

// Network holds all guests' addresses. It is the same for all runs: no two
// fabrics ever meet.
func Network() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, 0, 0}), 16) }

// Address is the guest's of a rank.
func Address(rank int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte((rank + 1) >> 8), byte(rank + 1)})
}

// rankOfAddress is the inverse of Address, or -1.
func rankOfAddress(a []byte) int {
	if len(a) != 4 || a[0] != 10 || a[1] != 77 {
		return -1
	}
	return int(a[2])<<8 + int(a[3]) - 1
}

// mac is a hardware address.
type mac [6]byte

// macOf is the guest's of a rank; it is locally administered.
func macOf(rank int) mac {
	return mac{0x02, 0xbe, 0xe0, 0, byte((rank + 1) >> 8), byte(rank + 1)}
}

// MAC is the hardware address of a rank's guest, as text.
func MAC(rank int) string {
	m := macOf(rank)
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// rank is the inverse of macOf, or -1.
func (m mac) rank() int {
	if m[0] != 0x02 || m[1] != 0xbe || m[2] != 0xe0 || m[3] != 0 {
		return -1
	}
	return int(m[4])<<8 + int(m[5]) - 1
}

// group reports whether a frame for this address goes to many.
func (m mac) group() bool { return m[0]&1 != 0 }
