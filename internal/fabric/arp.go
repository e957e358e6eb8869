package fabric

import "encoding/binary"

// Fields of an ARP packet for IPv4 over Ethernet (RFC 826), after the
// Ethernet header of 14 bytes.
const (
	arpLength  = 14 + 28
	arpType    = 0x0806
	arpRequest = 1
	arpReply   = 2
)

// answerARP gives the answer to a question for the hardware address of another
// guest, which every switch knows: nobody need be asked, however many there
// are. It is nil for any other frame.
func answerARP(frame []byte, own int) []byte {
	if len(frame) < arpLength || binary.BigEndian.Uint16(frame[12:]) != arpType {
		return nil
	}
	p := frame[14:]
	if binary.BigEndian.Uint16(p) != 1 || binary.BigEndian.Uint16(p[2:]) != 0x0800 || p[4] != 6 || p[5] != 4 || binary.BigEndian.Uint16(p[6:]) != arpRequest {
		return nil
	}
	rank := rankOfAddress(p[24:28])
	if rank < 0 || rank == own || rank >= MaxRanks {
		return nil
	}
	target := macOf(rank)
	answer := make([]byte, arpLength)
	copy(answer, frame[6:12])
	copy(answer[6:], target[:])
	binary.BigEndian.PutUint16(answer[12:], arpType)
	a := answer[14:]
	copy(a, p[:6])
	binary.BigEndian.PutUint16(a[6:], arpReply)
	copy(a[8:], target[:])
	copy(a[14:], p[24:28])
	copy(a[18:], p[8:14])
	copy(a[24:], p[14:18])
	return answer
}
