package e2e

import (
	"os"
	"strconv"
	"syscall"
)

func itoa(n int) string { return strconv.Itoa(n) }

func sysOf(info os.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }
