package server

import (
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// TestEventChannel: its socket is readable once for all events that wait, however many they are
// and whoever takes them, and at its end when the broker's is closed.
func TestEventChannel(t *testing.T) {
	paths, _, ports := testPorts(t, plenty())
	c := greet(t, paths[0])
	var channel message.Created
	fds := c.must(message.OpCMChannel, &channel, message.CMCall{})
	if len(fds) != 1 {
		t.Fatalf("%d descriptors", len(fds))
	}
	defer unix.Close(fds[0])
	packets := func() (n int) {
		for {
			got, _, err := unix.Recvfrom(fds[0], make([]byte, 8), unix.MSG_DONTWAIT)
			if err != nil || got == 0 {
				return n
			}
			n++
		}
	}
	event := func() (message.CMEvent, syscall.Errno) {
		var e message.CMEvent
		_, errno := c.call(message.OpCMEvent, &e, message.CMCall{Handle: channel.Handle})
		return e, errno
	}
	if n := packets(); n != 0 {
		t.Errorf("%d packets without an event", n)
	}
	if _, errno := event(); errno != syscall.EAGAIN {
		t.Errorf("without an event: %v", errno)
	}
	nowhere := message.CMAddress{Family: 4, Port: 1, IP: [16]byte{192, 0, 2, 1}}
	for range 3 {
		var id message.Created
		c.must(message.OpCMID, &id, message.CMCall{Handle: channel.Handle, Value: broker.SpaceTCP})
		c.must(message.OpCMResolve, nil, message.CMResolve{Handle: id.Handle, Destination: nowhere})
		if _, errno := c.call(message.OpCMResolve, nil, message.CMResolve{Handle: id.Handle, Destination: nowhere}); errno != syscall.EINVAL {
			t.Errorf("a second search before the end of the first: %v", errno)
		}
	}
	for left := 3; left > 0; left-- {
		if n := packets(); n != 1 {
			t.Errorf("%d packets with %d events", n, left)
		}
		if e, errno := event(); errno != 0 || e.Event != broker.AddressError || e.Status != -int32(syscall.EHOSTUNREACH) {
			t.Errorf("got %+v, %v", e, errno)
		}
	}
	if n := packets(); n != 0 {
		t.Errorf("%d packets after the last event", n)
	}
	if s := ports[0].Statistics(); s.Refusals.Others != 3 { // EAGAIN is none
		t.Errorf("refusals: %+v", s.Refusals)
	}
	ports[0].Close()
	if n, _, err := unix.Recvfrom(fds[0], make([]byte, 8), unix.MSG_DONTWAIT); n != 0 || err != nil {
		t.Errorf("after the end of the broker: %d bytes, %v", n, err)
	}
}

// TestManyChannels: they have a limit, and the broker keeps no descriptor of the process's end.
func TestManyChannels(t *testing.T) {
	l := plenty()
	l.IDs = 4
	paths, _, ports := testPorts(t, l)
	c := greet(t, paths[0])
	for range l.IDs {
		closeAll(c.must(message.OpCMChannel, nil, message.CMCall{}))
	}
	if _, errno := c.call(message.OpCMChannel, nil, message.CMCall{}); errno != syscall.ENOMEM {
		t.Errorf("one more: %v", errno)
	}
	ports[0].server.mu.Lock()
	defer ports[0].server.mu.Unlock()
	for p := range ports[0].live {
		if len(p.passed) != 0 {
			t.Errorf("%d descriptors stay", len(p.passed))
		}
	}
}
