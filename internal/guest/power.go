package guest

import (
	bits "encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// ending has the first process of a machine end it in good order when it is asked to: by SIGTERM, which poweroff sends,
// by SIGINT, which reboot sends, by the kernel's Ctrl-Alt-Del, and by SIGPWR for the power button.
type ending struct {
	begun atomic.Bool
	// alone is closed when no other process is left.
	alone chan struct{}
}

// endTime is what processes have to end by themselves.
const endTime = 10 * time.Second

func newEnding() *ending {
	e := &ending{alone: make(chan struct{})}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM, unix.SIGINT, unix.SIGPWR)
	core.BestEffort(unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF))
	go func() {
		how := unix.LINUX_REBOOT_CMD_POWER_OFF
		by := <-asked
		if by == unix.SIGINT {
			how = unix.LINUX_REBOOT_CMD_RESTART
		}
		fmt.Fprintln(os.Stderr, "bee: the machine ends, as asked")
		e.begun.Store(true)
		core.BestEffort(unix.Kill(-1, unix.SIGTERM))
		select {
		case <-e.alone:
		case <-time.After(endTime):
			core.BestEffort(unix.Kill(-1, unix.SIGKILL))
		}
		if by != unix.SIGPWR { // a start script that ends the machine itself has run
			if err := closeIdentity(machineDir); err != nil {
				fmt.Fprintln(os.Stderr, "bee: keep that the start script has run:", err)
			}
		}
		unix.Sync()
		core.BestEffort(unix.Reboot(how))
	}()
	return e
}

// Of linux/input.h and linux/input-event-codes.h.
const (
	eventSize = 24 // with times of 64 bits
	eventKey  = 1
	keyPower  = 116
)

// awaitPowerButton ends the machine when its power button is pressed, as clouds do to stop one.
func awaitPowerButton() {
	files, _ := filepath.Glob("/dev/input/event*")
	for _, name := range files {
		go func() {
			f, err := os.Open(name)
			if err != nil {
				return
			}
			defer f.Close()
			for event := make([]byte, eventSize); ; {
				if _, err := io.ReadFull(f, event); err != nil {
					return
				}
				if bits.NativeEndian.Uint16(event[16:]) == eventKey && bits.NativeEndian.Uint16(event[18:]) == keyPower && bits.NativeEndian.Uint32(event[20:]) == 1 {
					core.BestEffort(unix.Kill(1, unix.SIGPWR))
				}
			}
		}()
	}
}

// reap collects orphans until the agent ends, or, when the machine is asked to end, all processes have.
func reap(agent int, e *ending) error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		over := e != nil && e.begun.Load()
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil && over:
			close(e.alone)
			select {} // the machine ends
		case err != nil:
			return err
		case pid == agent && !over:
			return fmt.Errorf("its agent has ended (%d)", status)
		}
	}
}
