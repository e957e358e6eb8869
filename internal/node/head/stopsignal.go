package head

import (
	"strconv"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// stopSignal is the signal that asks the image's processes to end: its STOPSIGNAL, in the
// forms that docker takes, else TERM.
func stopSignal(c core.ImageConfig) syscall.Signal {
	const realTimeMin, realTimeMax = 34, 64 // as glibc and musl's docker images count them
	text := strings.ToUpper(c.StopSignal)
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= realTimeMax {
		return syscall.Signal(n)
	}
	name := strings.TrimPrefix(text, "SIG")
	for _, from := range []struct {
		name string
		n    int
	}{{"RTMIN", realTimeMin}, {"RTMAX", realTimeMax}} {
		offset, is := strings.CutPrefix(name, from.name)
		n, err := strconv.Atoi(offset)
		if n += from.n; is && (err == nil || offset == "") && n >= realTimeMin && n <= realTimeMax {
			return syscall.Signal(n)
		}
	}
	if n := unix.SignalNum("SIG" + name); n != 0 {
		return n
	}
	return syscall.SIGTERM
}
