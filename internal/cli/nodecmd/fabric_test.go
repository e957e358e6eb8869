package nodecmd

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/bee-hpc/bee/internal/fabric"
)

// TestSwitchesAreShownWithTheirNeighbours: in a tree of four hosts with two guests
// each, the root is notified of all, and of links only what there shall be.
func TestSwitchesAreShownWithTheirNeighbours(t *testing.T) {
	var asked []int
	all, err := readSwitches(func(rank int) (fabric.Stats, error) {
		asked = append(asked, rank)
		f := fabric.New(fabric.Tree, fabric.Sockets, fabric.Place{Host: rank / 2, Hosts: 4, Guests: 2}, slog.New(slog.DiscardHandler))
		defer f.Close()
		return f.Stats(), nil
	})
	if err != nil || len(asked) != 4 {
		t.Fatalf("nodes %v were asked, %v", asked, err)
	}
	all[0].Ports = []fabric.Port{{Rank: 0, Traffic: fabric.Traffic{ToBytes: 2500, FromBytes: 100, FromBytesPerSecond: 10, Dropped: 1}}, {Rank: 1}}
	all[0].Peers[0].Up, all[0].Peers[0].Connections, all[0].Peers[0].SentBytesPerSecond = true, 1, 1500
	all[1].Peers[1].Up, all[1].Peers[1].Connections, all[1].Peers[1].Unencrypted = true, 3, 3
	var out bytes.Buffer
	if err := writeSwitches(&out, all); err != nil {
		t.Fatal(err)
	}
	want := "NODE  TO       UP              SENT    A SECOND  RECEIVED  A SECOND  DROPPED\n" +
		"0     guest 0  yes             2.5 kB  0 B       100 B     10 B      1 frame\n" +
		"0     guest 1  yes             0 B     0 B       0 B       0 B       0 frames\n" +
		"0     node 2   yes             0 B     1.5 kB    0 B       0 B       0 frames\n" +
		"0     node 4   no              0 B     0 B       0 B       0 B       0 frames\n" +
		"2     node 0   no              0 B     0 B       0 B       0 B       0 frames\n" +
		"2     node 6   by 3, in clear  0 B     0 B       0 B       0 B       0 frames\n" +
		"4     node 0   no              0 B     0 B       0 B       0 B       0 frames\n" +
		"6     node 2   no              0 B     0 B       0 B       0 B       0 frames\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
