package guest

import "testing"

func TestTheClockThatKeepsItsPace(t *testing.T) {
	for _, c := range []struct {
		commandLine string
		counterKHz  int64
		want        string
	}{
		{"quiet tsc_early_khz=2596138 -- vm", 2596120, "tsc"},
		{"quiet tsc_early_khz=2596138 -- vm", 3100000, "hpet"},
		{"quiet tsc_early_khz=2596138 -- vm", 1900000, "hpet"},
		{"quiet tsc_early_khz=2596138 -- vm", 0, ""}, // a host that has none
		{"quiet tsc=reliable -- vm", 2596138, ""},    // not emulated
	} {
		if got := clockSource(c.commandLine, c.counterKHz); got != c.want {
			t.Errorf("%q at %d kHz: %q, want %q", c.commandLine, c.counterKHz, got, c.want)
		}
	}
}
