package forward

import (
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// TestGreetingWithNodesOfOthers: a broker gets nothing for nodes that it claims to have, where these run on another
// machine, or are none.
func TestGreetingWithNodesOfOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		ranks []int
		right bool
	}{
		"its own":        {[]int{1}, true},
		"of its machine": {[]int{1, 3}, true},
		"of another":     {[]int{1, 2}, false},
		"of this one":    {[]int{1, 0}, false},
		"not known":      {[]int{1, 9}, false},
		"not itself":     {[]int{3}, false},
		"none":           {nil, false},
		"twice":          {[]int{1, 3, 3}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := newApart(t, 0, 100)
			a.far.o.Together = func(a, b int) bool { return slices.Contains([]int{1, 3}, a) && slices.Contains([]int{1, 3}, b) }
			waits := &pair{far: a.far, rank: 2}
			a.far.waiting[2] = []*pair{waits}
			conns := wire(t)
			served := make(chan error, 1)
			go func() { served <- a.far.Serve(t.Context(), conns[0], 1) }()
			if _, err := conns[1].Write(greeting{Build: strings.Repeat("b", message.Build), Nonce: 1, Ranks: tc.ranks}.frame()); err != nil {
				t.Fatal(err)
			}
			var frames []kind
			for buf := make([]byte, mostFrame); ; {
				k, _, err := readFrame(conns[1], buf)
				if err != nil {
					break
				}
				if frames = append(frames, k); k == frameGo {
					conns[1].Close()
				}
			}
			if err := <-served; err == nil || strings.Contains(err.Error(), "cannot have") == tc.right {
				t.Errorf("got %v", err)
			}
			if got := slices.Contains(frames, frameGo); got != tc.right {
				t.Errorf("frames %v", frames)
			}
			if a.far.links[2] != nil || !slices.Contains(a.far.waiting[2], waits) {
				t.Error("what waits for node 2 waits no more")
			}
		})
	}
}
