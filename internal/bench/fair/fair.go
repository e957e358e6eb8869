// Package fair finds out what computed in a run on this host: which files its processes
// had mapped as programs, and on how many cores they could be. It only reads /proc (proc(5)),
// and changes nothing. Processes on other hosts and of another user are not seen. In a guest,
// the package runs there.
package fair

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Found is what was seen of a run.
type Found struct {
	// Programs are the SHA-256 digests, in hex, of what was mapped to be executed, by path in
	// the container.
	Programs map[string]string `json:"programs,omitempty"`
	// Files are the identities of the same files, by path: files of one image and identity have
	// the same contents.
	Files map[string]string `json:"files,omitempty"`
	// Cores is the number of those that some process could use; 0: none was seen.
	Cores int `json:"cores,omitempty"`
	// Bound is the least number of cores that one process could use: below Cores, processes are bound to
	// some. 0: none was seen.
	Bound int `json:"bound,omitempty"`
	// Memory is the most, in bytes, that the control groups of a process let it use; 0: a
	// process has no limit, or none was seen.
	Memory int64 `json:"memory,omitempty"`
	// Busiest is the greatest number of processes of one program at once.
	Busiest int `json:"busiest,omitempty"`
	// Foreign are files of the host that a process had mapped to be executed although its
	// programs are an image's, sorted.
	Foreign []string `json:"foreign,omitempty"`
	// Settings are variables of MPI processes that choose how messages are sent.
	Settings map[string]string `json:"settings,omitempty"`
	// CMA is what may prevent an MPI process from copying out of the memory of another one of its
	// host (cross memory attach); "": there was no MPI process.
	CMA CMA `json:"cma,omitempty"`
	// Host is the name of the host, and Others are what was seen on the others of the run. Of these,
	// Programs and Files lack what is the same on the first host.
	Host   string  `json:"host,omitempty"`
	Others []Found `json:"others,omitempty"`
	// Unseen are hosts on which nothing could look.
	Unseen []string `json:"unseen,omitempty"`
	// Misled are programs that behave differently where the image's loader has started them:
	// those that look at their own executable, and those that run as another user. Sorted.
	Misled []string `json:"misled,omitempty"`
}

// Bounds of what a run can make this process keep.
const (
	mostFiles     = 256
	mostProcesses = 4096
	mostText      = 1 << 20 // of one file in /proc
)

// Watch looks at the processes of a run until it is stopped.
type Watch struct {
	mark    string // the variable in the environment of the run's processes
	prefix  string // the beginning of the variable that a prefix's processes have
	tools   string // the directory in containers whose files belong to bee
	own     string // the part of the path of processes' information: /proc
	here    bool   // Sought.Here
	foreign map[string]bool
	loaded  map[string]bool // the programs that a loader has started
	strange map[string]uint64
	files   map[string]*os.File
	cores   []uint32         // the processors that some process may use
	limits  map[string]int64 // of memory, by the groups of processes; 0: none
	found   Found
	ended   chan struct{}
	cancel  context.CancelFunc
	looks   atomic.Int64
}

// Sought says which processes count.
type Sought struct {
	// Variable and Value are in the environment of each.
	Variable, Value string
	// Tools is a directory in containers whose files are not counted.
	Tools string
	// Prefix is a variable of processes that run without a container. Its value says, as
	// JSON, where their files belong (origin).
	Prefix string
	// Here: the processes have the root directory of this one, such as in one container with it.
	// Else these belong to the runtime.
	Here bool
}

// Start looks at the processes that are sought.
func Start(ctx context.Context, s Sought) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{
		mark: s.Variable + "=" + s.Value, prefix: s.Prefix + "=", tools: strings.TrimSuffix(s.Tools, "/") + "/", own: "/proc", here: s.Here, foreign: map[string]bool{}, loaded: map[string]bool{},
		strange: map[string]uint64{}, files: map[string]*os.File{}, limits: map[string]int64{}, ended: make(chan struct{}), cancel: cancel,
	}
	go w.look(ctx)
	return w
}

// look is frequent at first, for short jobs, and then rare, so that it costs nothing.
func (w *Watch) look(ctx context.Context) {
	defer close(w.ended)
	for pause := 20 * time.Millisecond; ; pause = min(pause*5/4, time.Second) {
		w.scan()
		w.looks.Add(1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Names ends the watch, and returns what was seen without the digests of programs.
func (w *Watch) Names() Found {
	w.end()
	for _, f := range w.files {
		f.Close()
	}
	return w.found
}

// end ends the watch, and notes all but what files contain.
func (w *Watch) end() {
	w.cancel()
	<-w.ended
	w.found.Cores, w.found.Memory = count(w.cores), loosest(w.limits)
	w.found.Files, w.found.Foreign = map[string]string{}, slices.Sorted(maps.Keys(w.foreign))
	for path, f := range w.files {
		if info, err := f.Stat(); err == nil { // else: not known
			w.found.Files[path] = fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
		}
	}
}

// Stop ends the watch, and returns what was seen. Files are read only now, so that reading
// them disturbed nothing.
func (w *Watch) Stop() Found {
	w.end()
	w.found.Programs = map[string]string{}
	for path, f := range w.files {
		h, own := sha256.New(), finder{text: []byte(ownExecutable)}
		if _, err := io.Copy(io.MultiWriter(h, &own), f); err == nil { // else: not known
			w.found.Programs[path] = hex.EncodeToString(h.Sum(nil))
		}
		if w.loaded[path] && (own.found || isSetID(f)) {
			w.found.Misled = append(w.found.Misled, path)
		}
		f.Close()
	}
	slices.Sort(w.found.Misled)
	return w.found
}

// scan looks at all processes once.
func (w *Watch) scan() {
	proc, err := os.Open(w.own)
	if err != nil {
		return
	}
	names, _ := proc.Readdirnames(-1)
	proc.Close()
	at := map[string]int{}
	for _, pid := range names {
		if _, err := strconv.Atoi(pid); err != nil {
			continue
		}
		began, known := started(w.own, pid)
		if before, is := w.strange[pid]; is && known && before == began {
			continue
		}
		environ := strings.Split(head(w.own+"/"+pid+"/environ"), "\x00")
		ours, from := w.ours(environ)
		if !ours {
			if len(w.strange) < mostProcesses {
				w.strange[pid] = began
			}
			continue
		}
		if program := w.note(pid, from, environ); program != "" {
			at[program]++
			w.found.Busiest = max(w.found.Busiest, at[program])
		}
	}
}

// started is when a process began, in ticks since the boot.
func started(proc, pid string) (uint64, bool) {
	text := head(proc + "/" + pid + "/stat")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return 0, false
	}
	v, err := strconv.ParseUint(fields[19], 10, 64) // the 22nd of all
	return v, err == nil
}

// ours reports whether a process with an environment belongs to the run, and where its files
// belong; nil: they are below its root. One between fork and exec has the environment of its parent.
func (w *Watch) ours(environ []string) (ours bool, from *origin) {
	for _, v := range environ {
		if v == w.mark {
			ours = true
		}
		if text, is := strings.CutPrefix(v, w.prefix); is && len(w.prefix) > 1 {
			o := &origin{}
			if json.Unmarshal([]byte(text), o) == nil && o.Tree != "" {
				from = o
			}
		}
	}
	return ours, from
}

// note remembers what a process has mapped, and returns its program.
func (w *Watch) note(pid string, from *origin, environ []string) (program string) {
	if from != nil {
		return w.noteHost(pid, from, environ)
	}
	if !w.here && w.onHost(pid) { // a program of the runtime, before it enters the container
		return ""
	}
	root, err := fsutil.OpenRoot(w.own + "/" + pid + "/root")
	if err != nil {
		return ""
	}
	defer root.Close()
	at, _ := os.Readlink(w.own + "/" + pid + "/root")
	exe, _ := os.Readlink(w.own + "/" + pid + "/exe")
	program = inside(at, exe)
	if strings.HasPrefix(program, w.tools) {
		return ""
	}
	w.noteCores(pid)
	w.noteGroups(pid)
	mpi := false
	for line := range strings.Lines(head(w.own + "/" + pid + "/maps")) {
		if path := inside(at, mapped(line)); !strings.HasPrefix(path, w.tools) {
			w.keep(root, path, path)
			mpi = mpi || isMPI(path)
		}
	}
	if mpi {
		w.noteMPI(pid, environ)
	}
	return program
}

// noteCores remembers which cores a process may use.
func (w *Watch) noteCores(pid string) {
	set := allowed(head(w.own + "/" + pid + "/status"))
	if n := count(set); n > 0 && (w.found.Bound == 0 || n < w.found.Bound) {
		w.found.Bound = n
	}
	w.cores = union(w.cores, set)
}

// onHost reports whether a process has the root directory of this process.
func (w *Watch) onHost(pid string) bool {
	here, err := os.Stat("/")
	there, err2 := os.Stat(w.own + "/" + pid + "/root")
	return err == nil && err2 == nil && os.SameFile(here, there)
}

// keep opens a file of a process, to read it later.
func (w *Watch) keep(root *fsutil.Root, path, at string) {
	if path == "" || w.files[path] != nil || len(w.files) >= mostFiles {
		return
	}
	if f, err := root.Open(strings.TrimPrefix(at, "/")); err == nil {
		w.files[path] = f
	}
}

// mapped is the path of a line of maps that is executable, or "".
func mapped(line string) string {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.Contains(fields[1], "x") || fields[4] == "0" || !strings.HasPrefix(fields[5], "/") {
		return ""
	}
	return strings.Join(fields[5:], " ")
}

// inside is a path as the process sees it, whose root directory is at. A file that was
// removed has no path.
func inside(at, path string) string {
	if path == "" || strings.HasSuffix(path, " (deleted)") {
		return ""
	}
	if at != "/" {
		if rest, is := strings.CutPrefix(path, at+"/"); is {
			return "/" + rest
		}
	}
	return path
}

// allowed are the processors that a process may use, by its status, which has the first 32
// of them last.
func allowed(status string) []uint32 {
	_, rest, is := strings.Cut(status, "\nCpus_allowed:\t")
	if !is {
		return nil
	}
	line, _, _ := strings.Cut(rest, "\n")
	var set []uint32
	for word := range strings.SplitSeq(strings.TrimSpace(line), ",") {
		v, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return nil
		}
		set = append(set, uint32(v))
	}
	return set
}

// union is of sets of one kernel, which are of equal length.
func union(a, b []uint32) []uint32 {
	if len(a) < len(b) {
		a, b = b, a
	}
	for i := range b {
		a[i] |= b[i]
	}
	return a
}

func count(set []uint32) (n int) {
	for _, v := range set {
		n += bits.OnesCount32(v)
	}
	return n
}

// head is the beginning of a file of the kernel; empty where it cannot be read.
func head(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, mostText))
	return string(text)
}
