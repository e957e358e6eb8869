package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Monitor gives a running machine orders, in QEMU's own protocol (QMP, its
// docs/interop/qmp-spec.txt).
type Monitor struct {
	conn    *net.UnixConn
	busy    sync.Mutex // one order at a time
	last    int
	printed chan message
}

// message is what QEMU says: an answer, or an event, which has no ID.
type message struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	ID    int    `json:"id"`
	Event string `json:"event"`
}

// NewMonitor speaks over a connection, which it owns from now on, to a machine
// that may still have to come up.
func NewMonitor(ctx context.Context, conn *net.UnixConn) (*Monitor, error) {
	m := &Monitor{conn: conn, printed: make(chan message, 16)}
	go m.listen()
	if err := m.Do(ctx, "qmp_capabilities", nil, nil); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close ends the connection. The machine stays as it is.
func (m *Monitor) Close() { m.conn.Close() }

func (m *Monitor) listen() {
	defer close(m.printed)
	defer m.conn.Close()
	for in := json.NewDecoder(m.conn); ; {
		var s message
		if in.Decode(&s) != nil {
			return
		}
		if s.ID != 0 { // neither the greeting nor an event
			m.printed <- s
		}
	}
}

// Do gives an order, with its arguments and, if into is not nil, its answer.
func (m *Monitor) Do(ctx context.Context, order string, arguments, into any) error {
	return m.do(ctx, order, arguments, into, nil)
}

func (m *Monitor) do(ctx context.Context, order string, arguments, into any, file *os.File) error {
	m.busy.Lock()
	defer m.busy.Unlock()
	m.last++
	request := map[string]any{"execute": order, "id": m.last}
	if arguments != nil {
		request["arguments"] = arguments
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	if _, _, err := m.conn.WriteMsgUnix(raw, rights, nil); err != nil {
		return fmt.Errorf("tell QEMU %s: %w", order, err)
	}
	for {
		select {
		case s, more := <-m.printed:
			switch {
			case !more:
				return fmt.Errorf("tell QEMU %s: %w", order, errors.New("it has ended"))
			case s.ID != m.last: // an order that nobody waits for any more
			case s.Error != nil:
				return fmt.Errorf("tell QEMU %s: %s", order, s.Error.Desc)
			case into != nil:
				return json.Unmarshal(s.Return, into)
			default:
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("tell QEMU %s: %w", order, context.Cause(ctx))
		}
	}
}

// Stop halts the machine's processors and devices. Idempotent.
func (m *Monitor) Stop(ctx context.Context) error { return m.Do(ctx, "stop", nil, nil) }

// Continue lets a halted machine continue. Idempotent.
func (m *Monitor) Continue(ctx context.Context) error { return m.Do(ctx, "cont", nil, nil) }

// Type is the versioned machine type, which a machine that takes this one's
// state must have.
func (m *Monitor) Type(ctx context.Context) (string, error) {
	var class string
	err := m.Do(ctx, "qom-get", map[string]string{"path": "/machine", "property": "type"}, &class)
	return trimClass(class), err
}
