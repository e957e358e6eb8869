package fabric

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// TestBurstsArriveWholeAndInOrder: many frames of all sizes at once, to two
// guests in turns, from a guest beside them and from one of another host.
func TestBurstsArriveWholeAndInOrder(t *testing.T) {
	hosts := twoOfThree(t)
	alone := mesh(t, 2) // guests without a queue of their own
	of := func(f *Fabric, rank int) *guest {
		return &guest{t: t, rank: rank, f: f, c: plug(t, f, rank)}
	}
	a, b, c, d := of(hosts[0], 0), of(hosts[0], 1), of(hosts[0], 2), of(hosts[1], 3)
	for name, route := range map[string]struct {
		from *guest
		to   []*guest
	}{"one host": {a, []*guest{b, c}}, "two hosts": {d, []*guest{b, c}}, "alone on its host": {alone[0], alone[1:]}} {
		t.Run(name, func(t *testing.T) {
			for round := range 20 {
				var sent [][]byte
				for i := range 3 * mostAtOnce {
					size := []int{20, 1500, 300, 9000}[i%4]
					if i%40 == 39 {
						size = 65000
					}
					payload := bytes.Repeat([]byte{byte(i)}, size)
					binary.BigEndian.PutUint32(payload, uint32(round*1000+i))
					f := frame(macOf(route.to[i%len(route.to)].rank), macOf(route.from.rank), string(payload))
					route.from.send(f)
					sent = append(sent, f)
				}
				for i, f := range sent {
					if got := route.to[i%len(route.to)].gets(time.Minute); !bytes.Equal(got, f) {
						t.Fatalf("round %d: frame %d of %d bytes came as %d", round, i, len(f), len(got))
					}
				}
			}
		})
	}
}
