package qemu

import "runtime"

// Program is the name of the QEMU for guests of this host's architecture.
func Program() string {
	if runtime.GOARCH == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}
