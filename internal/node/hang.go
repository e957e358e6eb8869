package node

import (
	"sync"
	"time"
)

// hangTime is how long the end of killed processes may take. Longer waits one that waits for a client which hangs:
// the kernel ends it once the client has ended.
const hangTime = 5 * time.Second

// hang keeps a client of a burst buffer that hangs from keeping a container.
type hang struct {
	mu    sync.Mutex
	abort func() // ends the client; nil: there is none
}

// guard has a client end where a container does not.
func (h *hang) guard(abort func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.abort = abort
}

// watch ends the client, unless ended is called before.
func (h *hang) watch(after time.Duration) (ended func()) {
	t := time.AfterFunc(after, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.abort != nil {
			h.abort()
		}
	})
	return func() { t.Stop() }
}
