package verbs

import "testing"

// TestDatagramsWaitForAReceiver: a receiver that has receives, and does not poll, loses no datagram.
func TestDatagramsWaitForAReceiver(t *testing.T) { newHost(t).datagrams(t) }

// TestDatagramsWaitForAReceiverOfAnotherMachine: the same between machines.
func TestDatagramsWaitForAReceiverOfAnotherMachine(t *testing.T) {
	m := newMachines(t)
	m.datagrams(t, "OTHER_SOCKET="+m.sockets[1])
}

func (h host) datagrams(t *testing.T, variables ...string) {
	program := compile(t, nil, []string{"test/verbs/programs/datagrams.c"}, "-libverbs")
	c, out := h.command(t.Context(), 0, program)
	c.Env = append(c.Env, variables...)
	if err := c.Run(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	h.empty(t)
}
