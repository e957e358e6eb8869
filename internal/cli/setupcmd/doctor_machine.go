package setupcmd

import (
	"fmt"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func memory() string {
	if bytes := core.HostMemory(); bytes > 0 {
		return console.BytesText(bytes)
	}
	return "unknown"
}

// disk reports how much space a directory, or the first above it that exists, has.
func disk(name, dir string) finding {
	at := dir
	for {
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); err == nil {
			free := int64(st.Bavail) * st.Bsize
			f := finding{Area: "disk", Name: name, Status: works, Detail: fmt.Sprintf("%s, %s free", dir, console.BytesText(free))}
			if free < 1<<30 {
				f.Status, f.Remedy = risky, "Free space there, or choose another directory."
			}
			return f
		}
		i := strings.LastIndexByte(at, '/')
		if i <= 0 {
			return finding{Area: "disk", Name: name, Status: missing, Detail: dir + " cannot be looked at", Remedy: "Choose another directory, by $BEE_STATE and $BEE_CACHE."}
		}
		at = at[:i]
	}
}
