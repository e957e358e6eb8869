package main

import (
	"net"
	"syscall"

	"github.com/bee-hpc/bee/internal/procid"
)

// freeAddress is one of loopback at which nobody listens.
func freeAddress() (*net.TCPAddr, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr), nil // what ListenTCP gives
}

// serve starts a server, which ends with us at the latest.
func (b *bench) serve(args ...string) (stop func(), err error) {
	c := b.command(args...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return func() { c.Process.Kill(); procid.Reap(c) }, nil // it ends now
}
