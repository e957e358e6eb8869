// Package ranks finds the processes of MPI jobs in a container, so that a
// signal reaches them as it is meant. Launchers do not pass signals on: on TERM
// they kill their ranks after a moment, whatever those are writing.
package ranks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command makes the bee binary, in a container, send a signal to the ranks
// there; WaitCommand makes it wait until they have ended, and the job's own
// processes with them.
const (
	Command     = "signal-ranks"
	WaitCommand = "wait-ranks"
)

// TaskVariable marks the processes of the job's own command.
const TaskVariable = "BEE_TASK"

// None is the exit code of Command where there are no ranks.
const None = 3

// variables that launchers give to each rank, and to nothing else that has no
// ranks below it.
var variables = []string{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}

// process is one of the container's.
type process struct {
	parent     int
	rank, task bool
}

// Main is `bee signal-ranks NUMBER` and `bee wait-ranks`.
func Main(args []string) int {
	if args[0] == WaitCommand {
		for {
			found, err := look("/proc")
			if err == nil && len(found) == 0 {
				return 0
			}
			time.Sleep(20 * time.Millisecond) // they are no children of ours: nothing reports their end
		}
	}
	if len(args) != 2 {
		return 2
	}
	number, err := strconv.Atoi(args[1])
	if err != nil {
		return 2
	}
	found, err := look("/proc")
	if err != nil {
		fmt.Fprintln(os.Stderr, "bee signal-ranks:", err)
		return 1
	}
	code := None
	for _, pid := range leaves(found) {
		if unix.Kill(pid, syscall.Signal(number)) == nil {
			code = 0
		}
	}
	return code
}

// look gives the ranks and the job's own processes. Where a container shares
// its host's processes, only those of the caller's attempt count.
func look(proc string) (map[int]process, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	found := map[int]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(filepath.Join(proc, e.Name(), "environ"))
		if err != nil || len(environ) == 0 { // a stranger's, or it has ended
			continue
		}
		p := process{task: has(environ, TaskVariable)}
		for _, v := range variables {
			p.rank = p.rank || has(environ, v)
		}
		if !p.rank && !p.task || !sameAttempt(environ) {
			continue
		}
		p.parent = parentOf(proc, e.Name())
		found[pid] = p
	}
	return found, nil
}

func has(environ []byte, name string) bool {
	return bytes.HasPrefix(environ, []byte(name+"=")) || bytes.Contains(environ, []byte("\x00"+name+"="))
}

func sameAttempt(environ []byte) bool {
	for _, name := range []string{"BEE_RUN_ID", "BEE_ATTEMPT"} {
		own := os.Getenv(name)
		if own != "" && has(environ, name) && !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+name+"="+own+"\x00")) {
			return false
		}
	}
	return true
}

func parentOf(proc, pid string) int {
	raw, err := os.ReadFile(filepath.Join(proc, pid, "stat"))
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold blanks and brackets itself.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// leaves gives the ranks that have none below them: a script that a launcher
// starts for each rank waits for the program in it, and would die of a signal
// before that has written its checkpoint.
func leaves(found map[int]process) []int {
	above := map[int]bool{}
	for _, p := range found {
		if p.rank {
			above[p.parent] = true
		}
	}
	var list []int
	for pid, p := range found {
		if p.rank && !above[pid] {
			list = append(list, pid)
		}
	}
	return list
}
