//go:build !amd64

package qemu

// ticks is 0 where the processor has no time stamp counter like that of guests.
func ticks() int64 { return 0 }
