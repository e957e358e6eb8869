package relay

import (
	"log/slog"
	"sync"
	"time"
)

// logAgain is how often the log has each kind of what a site can cause at will.
const logAgain = time.Minute

// tally logs each kind of warning once in a while, with how many there were meanwhile.
type tally struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[string]*kind
}

// kind is a kind of warning.
type kind struct {
	logged time.Time
	more   int   // since then
	last   []any // of these
}

// warn logs a warning. Its text is its kind, so that it is a constant.
func (t *tally) warn(text string, about ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[text]
	if k == nil {
		k = &kind{}
		if t.kinds == nil {
			t.kinds = map[string]*kind{}
		}
		t.kinds[text] = k
	}
	k.more, k.last = k.more+1, about
	if time.Since(k.logged) >= logAgain {
		k.write(t.log, text)
	}
}

// flush logs what was counted and not logged.
func (t *tally) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for text, k := range t.kinds {
		if k.more > 0 {
			k.write(t.log, text)
		}
	}
}

func (k *kind) write(log *slog.Logger, text string) {
	if k.more > 1 {
		k.last = append(k.last, "times", k.more)
	}
	log.Warn(text, k.last...)
	k.logged, k.more, k.last = time.Now(), 0, nil
}
