package qemu

import (
	"math"
	"runtime"
	"testing"
	"time"
)

// The frequency that a guest gets is that at which the counter runs, whatever else
// the host does meanwhile: by it the guest gives the time.
func TestTheCountersFrequency(t *testing.T) {
	khz := tscKHz()
	if runtime.GOARCH != "amd64" {
		if khz != 0 {
			t.Errorf("%d kHz of no counter", khz)
		}
		return
	}
	t0, c0 := tick()
	time.Sleep(200 * time.Millisecond)
	t1, c1 := tick()
	if want := float64(c1-c0) / t1.Sub(t0).Seconds() / 1000; math.Abs(float64(khz)-want) > want/1000 {
		t.Errorf("%d kHz, and over a longer time %.0f", khz, want)
	}
}
