package domain

import (
	"net/netip"

	"github.com/bee-hpc/bee/internal/rdma/broker"
)

// announce reports that a program of this broker listens, or does so no more.
func (l *link) announce(x broker.Listener, on bool) { l.send(kindListener, nil, listenerOf(x, on)) }

// mostListeners bounds those of the other broker.
const mostListeners = 1 << 18

func (l *link) takeListener(raw []byte) error {
	var m listener
	if whole(raw, &m) != nil || len(l.listeners) == mostListeners {
		return errMessage
	}
	if _, is := l.port(m.LID); !is {
		return errMessage
	}
	if m.On == 0 {
		delete(l.listeners, m.listener())
		return nil
	}
	l.listeners[m.listener()] = true
	l.far.o.Host.Answer()
	return nil
}

// listens reports whether a program of a port listens at an address.
func (l *link) listens(lid uint16, space uint32, to netip.AddrPort) bool {
	for _, ip := range []netip.Addr{to.Addr(), netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if to.Addr().Is6() && ip == netip.IPv4Unspecified() {
			continue
		}
		if l.listeners[broker.Listener{LID: lid, Space: space, At: netip.AddrPortFrom(ip, to.Port())}] {
			return true
		}
	}
	return false
}
