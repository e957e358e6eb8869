package qemu

// ticks reads the processor's time stamp counter.
func ticks() int64
