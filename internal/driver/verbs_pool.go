package driver

import (
	"context"
	"net"
	"os"
)

// VerbsPool is the memory that the programs of the guests of one host share, whose broker of bee_0 runs on the host.
type VerbsPool struct {
	// File is the memory, of so many Bytes.
	File  *os.File `json:"-"`
	Bytes int64    `json:"bytes"`
	// Share is one guest's part of it, in bytes. All parts are the whole: root in a guest can fill it.
	Share int64 `json:"share"`
	// Base is the offset in File at which the memory begins that a guest sees.
	Base uint64 `json:"base"`
	// Program carries a program of the guest by a stream that leads to it, until either ends, and closes the stream.
	Program func(ctx context.Context, stream net.Conn) error `json:"-"`
}
