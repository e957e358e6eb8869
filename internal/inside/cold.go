package inside

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unsafe"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Cold is what `inside cold FILE...` writes as a line of JSON: how much of some files the
// kernel keeps in memory although it was asked to drop them.
type Cold struct {
	Files int   `json:"files"`
	Pages int64 `json:"pages"`
	// InMemory are pages that stayed, or of which nothing is known.
	InMemory int64 `json:"in_memory"`
	// Bytes is the size of the files, and Memory that of the host; 0: not known.
	Bytes  int64 `json:"bytes"`
	Memory int64 `json:"memory"`
	// Boot is that of the kernel that has dropped them: hosts have one each; "": not known.
	Boot string `json:"boot,omitempty"`
}

// ColdKey is the one key of that line.
const ColdKey = "cold_files"

// coldTries is how often the kernel is asked. Pages that another process reads at that
// moment stay.
const coldTries = 3

// coldWindow bounds what is mapped at once.
const coldWindow = 1 << 30

// writeCold drops the pages of files from memory, and writes what stayed.
func writeCold(w io.Writer, files []string) error {
	c := Cold{Memory: core.HostMemory(), Boot: boot()}
	for _, file := range files {
		size, stayed, err := dropPages(file)
		if err != nil {
			return fmt.Errorf("drop %s from memory: %w", file, err)
		}
		c.Files, c.Pages, c.InMemory, c.Bytes = c.Files+1, c.Pages+pagesOf(size), c.InMemory+stayed, c.Bytes+size
	}
	return json.NewEncoder(w).Encode(map[string]Cold{ColdKey: c})
}

// dropPages writes what a file has in memory only, and asks the kernel to drop its pages
// (posix_fadvise(2)). It returns the size of the file, and how many of its pages stayed.
func dropPages(name string) (size, stayed int64, err error) {
	f, err := os.Open(name) //nolint:forbidigo // a file of the job, opened with the rights of the job
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return 0, 0, err
	}
	for range coldTries {
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			return 0, 0, err
		}
		if stayed = inMemory(f, info.Size()); stayed == 0 {
			break
		}
	}
	return info.Size(), stayed, nil
}

func pagesOf(size int64) int64 {
	page := int64(os.Getpagesize())
	return (size + page - 1) / page
}

// boot is the id of the kernel's boot.
func boot() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") //nolint:forbidigo // a file of the kernel; "" is not known
	return strings.TrimSpace(string(text))
}

// inMemory counts the pages of a file that are in memory (mincore(2)). All of a file that
// cannot be mapped are.
func inMemory(f *os.File, size int64) (n int64) {
	for at := int64(0); at < size; at += coldWindow {
		length := min(size-at, coldWindow)
		pages := pagesOf(length)
		m, err := unix.Mmap(int(f.Fd()), at, int(length), unix.PROT_NONE, unix.MAP_SHARED)
		if err != nil {
			n += pages
			continue
		}
		found := make([]byte, pages)
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(length), uintptr(unsafe.Pointer(&found[0])))
		unix.Munmap(m)
		for _, v := range found {
			if errno != 0 || v&1 != 0 { // the other bits are not defined
				n++
			}
		}
	}
	return n
}
