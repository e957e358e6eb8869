package testkit

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// FreePort returns one for a program to listen on.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Listening reports whether a program listens on a port. A connection would be its client.
func Listening(port int) error {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		raw, err := os.ReadFile(table)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == "0A" {
				return nil
			}
		}
	}
	return fmt.Errorf("nothing listens on port %d", port)
}
