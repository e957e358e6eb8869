package qemu

import (
	"sync"
	"time"
)

// tscKHz is the frequency of the time stamp counter, which software emulation hands
// to its guests as it is; 0: there is none, or it makes no sense.
var tscKHz = sync.OnceValue(func() int64 {
	const least = 100_000
	t0, c0 := tick()
	time.Sleep(20 * time.Millisecond)
	t1, c1 := tick()
	if khz := (c1 - c0) * int64(time.Millisecond) / int64(t1.Sub(t0)); khz >= least {
		return khz
	}
	return 0
})

// tick reads clock and counter at the same time: of several tries, the one between
// whose ends least time has passed was not interrupted.
func tick() (at time.Time, count int64) {
	shortest := time.Hour
	for range 20 {
		begun := time.Now()
		c := ticks()
		if took := time.Since(begun); took < shortest {
			shortest, at, count = took, begun.Add(took/2), c
		}
	}
	return at, count
}
