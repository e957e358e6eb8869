package head

import (
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func TestStopSignal(t *testing.T) {
	for text, want := range map[string]syscall.Signal{
		"": syscall.SIGTERM, "SIGQUIT": syscall.SIGQUIT, "quit": syscall.SIGQUIT, "3": 3, "SIGRTMIN+3": 37, "RTMAX-1": 63, "SIGRTMIN": 34,
		"nonsense": syscall.SIGTERM, "0": syscall.SIGTERM, "900": syscall.SIGTERM, "RTMIN+99": syscall.SIGTERM, "RTMINx": syscall.SIGTERM, "-1": syscall.SIGTERM,
	} {
		if got := stopSignal(core.ImageConfig{StopSignal: text}); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
