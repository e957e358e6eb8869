package guest

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// wake sets the guest's clock after it was halted, and stirs its random
// numbers.
func wake(r api.ClockRequest) error {
	if err := stir(r.Seed); err != nil {
		return fmt.Errorf("stir random numbers: %w", err)
	}
	if err := setPace(r.CounterKHz); err != nil {
		fmt.Fprintln(os.Stderr, "bee guest: the time passes at another pace from now on:", err)
	}
	now := unix.NsecToTimeval(r.Now.UnixNano())
	if err := unix.Settimeofday(&now); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

// stir has the kernel mix a seed into its random numbers at once (random(4)).
func stir(seed []byte) error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(seed); err != nil {
		return err
	}
	return unix.IoctlSetInt(int(f.Fd()), reseed, 0)
}

// reseed is RNDRESEEDCRNG of linux/random.h.
const reseed = 0x5207

// setPace has the kernel give the time by another clock where the counter by which it
// does runs at another pace than where the guest was booted: an emulated machine has its
// host's.
func setPace(counterKHz int64) error {
	raw, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	source := clockSource(string(raw), counterKHz)
	if source == "" {
		return nil
	}
	return os.WriteFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", []byte(source), 0)
}

// clockSource names the clock to give the time by, where what the guest was booted with
// reports a counter's frequency: the counter, or where it runs at another one now, a
// slower clock that does not depend on the host.
func clockSource(commandLine string, counterKHz int64) string {
	for _, word := range strings.Fields(commandLine) {
		text, is := strings.CutPrefix(word, "tsc_early_khz=")
		if booted, err := strconv.ParseInt(text, 10, 64); is && err == nil && counterKHz > 0 {
			if diff := booted - counterKHz; max(diff, -diff) > booted/1000 {
				return "hpet"
			}
			return "tsc"
		}
	}
	return ""
}
