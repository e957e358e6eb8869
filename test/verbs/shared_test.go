package verbs

import "testing"

// TestMessageOutlivesItsSender: a message to a shared receive queue that is complete arrives once there is a receive,
// although its sender has ended.
func TestMessageOutlivesItsSender(t *testing.T) {
	program := compile(t, nil, []string{"test/verbs/programs/shared.c"}, "-libverbs")
	for _, args := range [][]string{{program}, {program, "give-up"}} {
		h := newHost(t)
		c, out := h.command(t.Context(), 0, args...)
		if err := c.Run(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		h.empty(t)
	}
}
