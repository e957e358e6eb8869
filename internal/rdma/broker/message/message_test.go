package message

import (
	"encoding/binary"
	"reflect"
	"testing"
)

// request encodes one, as the library does.
func request(op Op, parts ...any) []byte {
	packet := make([]byte, requestHeader)
	for _, part := range parts {
		var err error
		if packet, err = binary.Append(packet, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	binary.LittleEndian.PutUint32(packet, uint32(len(packet)))
	binary.LittleEndian.PutUint16(packet[4:], uint16(op))
	return packet
}

// TestDecode: requests are read as they are, and nothing else is one.
func TestDecode(t *testing.T) {
	extents := []Extent{{Offset: 0, At: 4096, Bytes: 8192, Region: 7}, {Offset: 8192, Bytes: 4096, Region: 8}}
	r, err := Decode(request(OpRegister, Register{PD: 1, Access: 7, Addr: 4097, Length: 12000, IOVA: 4097, Count: 2}, extents))
	if err != nil || r.Body.(*Register).Length != 12000 || !reflect.DeepEqual(r.Extents, extents) {
		t.Errorf("got %+v, %v", r, err)
	}
	r, err = Decode(request(OpModifyQP, ModifyQP{Handle: 3, LID: 5, MaxDestRDAtomic: 16}))
	if m, is := r.Body.(*ModifyQP); err != nil || !is || m.Handle != 3 || m.LID != 5 || m.MaxDestRDAtomic != 16 {
		t.Errorf("got %+v, %v", r, err)
	}
	for name, packet := range map[string][]byte{
		"empty":            {},
		"header alone":     request(OpConnect),
		"too long":         append(request(OpConnect, Connect{Handle: 1}), 0),
		"other size":       append(request(OpConnect, Connect{Handle: 1})[:12:12], 0, 0, 0),
		"unknown":          request(99, Connect{}),
		"no operation":     request(0, Connect{}),
		"too few extents":  request(OpRegister, Register{Count: 3}, extents),
		"too many extents": request(OpRegister, Register{Count: 1}, extents),
		"endless extents":  request(OpRegister, Register{Count: 1<<32 - 1}),
	} {
		if r, err := Decode(packet); err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// FuzzDecode: no packet stops the decoder, and what is read has the same bytes again.
func FuzzDecode(f *testing.F) {
	f.Add(request(OpHello, Hello{Protocol: 1}))
	f.Add(request(OpRegister, Register{Count: 1}, []Extent{{Bytes: 4096}}))
	f.Add(request(OpModifyQP, ModifyQP{Mask: 1}))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := Decode(packet)
		if err != nil {
			return
		}
		again := request(r.Op, reflect.ValueOf(r.Body).Elem().Interface(), r.Extents)
		if len(again) != len(packet) {
			t.Errorf("%d bytes of %d", len(again), len(packet))
		}
		second, err := Decode(again)
		if err != nil || !reflect.DeepEqual(r, second) {
			t.Errorf("%+v is read again as %+v, %v", r, second, err)
		}
	})
}
