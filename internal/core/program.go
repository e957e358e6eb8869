package core

import (
	"io/fs"
	"os"
	"syscall"
)

// WriteProgram is os.WriteFile for a program that this process executes soon. Linux refuses to
// execute a file that is open for writing (ETXTBSY, execve(2)), and a child that another
// goroutine forks meanwhile would have it open until its own exec. So no child is forked
// before the file is closed.
func WriteProgram(name string, data []byte, mode fs.FileMode) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, data, mode)
}
