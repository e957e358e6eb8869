package qemu

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// archOr gives an architecture, or this host's where none is named.
func archOr(arch string) string {
	if arch == "" {
		return runtime.GOARCH
	}
	return arch
}

// Program is the name of the QEMU for guests of this host's architecture.
func Program() string { return ProgramFor("") }

// ProgramFor is the name of the QEMU for guests of an architecture.
func ProgramFor(arch string) string {
	if archOr(arch) == "arm64" {
		return "qemu-system-aarch64"
	}
	return "qemu-system-x86_64"
}

// Bundled is the command of the QEMU that travels in a guest image's tree, or
// nil where it has none. It needs nothing of its host: its own loader starts it
// with its own libraries, modules and firmware, from whatever directory.
func Bundled(tree string) []string {
	dir := filepath.Join(tree, "qemu")
	if _, err := os.Stat(filepath.Join(dir, "loader")); err != nil {
		return nil
	}
	return []string{
		"/usr/bin/env", "QEMU_MODULE_DIR=" + filepath.Join(dir, "modules"),
		filepath.Join(dir, "loader"), "--library-path", filepath.Join(dir, "lib"), filepath.Join(dir, "qemu"), "-L", filepath.Join(dir, "share"),
	}
}

// Choose gives the host's own QEMU, which its administrators keep, or else the
// bundled one. That comes first where only it has a sandbox.
func Choose(ctx context.Context, tree string) []string {
	own, bundled := []string{Program()}, Bundled(tree)
	if _, err := exec.LookPath(own[0]); bundled != nil && (err != nil || !HasSandbox(ctx, own)) {
		return bundled
	}
	return own // its start reports that it is not there
}
