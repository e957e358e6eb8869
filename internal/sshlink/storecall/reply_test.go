package storecall

import (
	"errors"
	"testing"
)

// endless sends zeros.
type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestAnswersWithoutEnd: of a store's host, and of a site that uses a store for us.
func TestAnswersWithoutEnd(t *testing.T) {
	if raw, err := readReply(endless{}, 1<<20); !errors.Is(err, ErrLong) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}
