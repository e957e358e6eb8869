package drivertest

import (
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
)

// devices wants the device nodes of a specification where it names them, and no others of the
// host there. /dev/null and /dev/zero stand for those of cards, as they are everywhere.
func (s RuntimeSuite) devices(t *testing.T) {
	if !s.New(t).Info().OwnDevices {
		return
	}
	c := s.spec(t)
	c.Devices = []driver.Device{{Source: "/dev/zero", Target: "/dev/cards/verbs0"}, {Source: "/dev/null", Target: "/dev/card0"}}
	box := s.start(t, c)
	if got := want(t, box, "test -c /dev/card0 && echo x > /dev/card0 && test -c /dev/cards/verbs0 && head -c 3 /dev/cards/verbs0 | wc -c && ls /dev/cards"); got != "3\nverbs0" {
		t.Errorf("got %q", got)
	}
}
