package emulate

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Line is what lies between a host and the others' switch, as if the host were far away. Frames
// pass a relay in the holder, as few kernels have a queue that delays them.
type Line struct {
	// Rate limits each direction, in bits per second; 0 means no limit.
	Rate int64 `json:"rate,omitempty"`
	// Delay is that of each frame, in each direction: a round trip takes it twice.
	Delay time.Duration `json:"delay,omitempty"`
	// Loss is the share of frames that are lost, at random.
	Loss float64 `json:"loss,omitempty"`
}

func (l *Line) check() error {
	if l.Rate < 0 || l.Delay < 0 || l.Delay > time.Minute || !(l.Loss >= 0 && l.Loss <= 1) {
		return &core.Error{Kind: core.Invalid, Op: "make a line", Err: fmt.Errorf("it has the rate %d, the delay %s and the loss %g", l.Rate, l.Delay, l.Loss), Remedy: "Give a rate and a delay of at most a minute, and a loss of at most 1."}
	}
	return nil
}

// mostFrame is a frame of TCP that its sender has not cut yet, behind the header of the kernel.
const mostFrame = 10 + 18 + 64<<10

// stretch makes the line of a host: from near, its port of the bridge, a relay leads to far.
func (n *network) stretch(h *host, near, far netlink.Link) error {
	if err := h.spec.Line.check(); err != nil {
		return err
	}
	var ends [2]int
	for i, link := range []netlink.Link{near, far} {
		// The holder answers no question for its own address there: answers would not pass the relay.
		if err := n.nl.LinkSetARPOff(link); err != nil {
			return fmt.Errorf("no ARP: %w", err)
		}
		if err := n.nl.LinkSetUp(link); err != nil {
			return err
		}
		fd, err := packets(link.Attrs().Index)
		if err != nil {
			return fmt.Errorf("read the frames of a line: %w", err)
		}
		ends[i] = fd
	}
	go relay(ends[0], ends[1], *h.spec.Line)
	go relay(ends[1], ends[0], *h.spec.Line)
	return nil
}

// packets opens an interface for frames with the kernel's header, which says what is still to be done
// to them: checksums, and cutting.
func packets(index int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: network16(unix.ETH_P_ALL), Ifindex: index}))
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20) // else more is lost while the machine is busy
	return fd, nil
}

func network16(v uint16) uint16 { return v<<8 | v>>8 } // all that BEE is built for are little-endian

// pacer decides when frames arrive at the other end of a line.
type pacer struct {
	Line
	free time.Time // when all before have left
}

// due returns when a frame of so many bytes arrives; false: it is lost, or the queue before the line is full.
// That holds a tenth of a second of frames, as the queues of links do.
func (p *pacer) due(now time.Time, size int) (time.Time, bool) {
	if p.free.Before(now) {
		p.free = now
	}
	if p.Loss > 0 && rand.Float64() < p.Loss {
		return time.Time{}, false
	}
	if p.Rate > 0 {
		takes := time.Duration(float64(size) * 8 / float64(p.Rate) * float64(time.Second))
		queue := max(100*time.Millisecond, time.Duration(float64(64<<10)*8/float64(p.Rate)*float64(time.Second)))
		if p.free.Sub(now)+takes > queue {
			return time.Time{}, false
		}
		p.free = p.free.Add(takes)
	}
	return p.free.Add(p.Delay), true
}

// parcel is a frame on its way.
type parcel struct {
	frame []byte
	due   time.Time
}

// relay carries frames in one direction, for as long as the holder runs.
func relay(from, to int, l Line) {
	sent := make(chan parcel, 1<<14)
	go func() {
		for p := range sent {
			time.Sleep(time.Until(p.due))
			_, _ = unix.Write(to, p.frame) // a network may lose it
		}
	}()
	defer close(sent)
	pace := pacer{Line: l}
	buf := make([]byte, mostFrame)
	for {
		n, sender, err := unix.Recvfrom(from, buf, 0)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EINVAL) { // of a kind of frame without a header
			continue
		}
		if err != nil {
			return
		}
		if s, is := sender.(*unix.SockaddrLinklayer); is && s.Pkttype == unix.PACKET_OUTGOING { // our own
			continue
		}
		due, passes := pace.due(time.Now(), n)
		if !passes {
			continue
		}
		select {
		case sent <- parcel{bytes.Clone(buf[:n]), due}:
		default: // more than a line has on the way
		}
	}
}

// lineNames are those of the three ends of links that a line adds to a host's port.
func lineNames(h *host) (near, far string) {
	i := strconv.Itoa(h.index)
	return "near" + i, "far" + i
}
