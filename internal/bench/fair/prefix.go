package fair

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// An origin says where the files of a process without a container belong.
type origin struct {
	// Tree is that of the image, or / for programs of the host; and Binary the program that starts the others.
	Tree   string `json:"tree"`
	Binary string `json:"binary"`
	// Places are directories of the host by their paths in a container.
	Places map[string]string `json:"places"`
}

// inside is the path that a file has in a container; foreign: it is the host's own.
func (o *origin) inside(path string) (in string, foreign bool) {
	for in, host := range o.Places {
		if rest, is := strings.CutPrefix(path, host+"/"); is {
			return strings.TrimSuffix(in, "/") + "/" + rest, false
		}
	}
	if rest, is := strings.CutPrefix(path, strings.TrimSuffix(o.Tree, "/")+"/"); is {
		return "/" + rest, false
	}
	return "", true
}

// mostForeign bounds what is kept of the host's own files.
const mostForeign = 64

// noteHost is note for a process that runs an image's program on the bare host. The host's
// shell is skipped unless all programs are the host's: it is what starts each of them, and computes nothing.
func (w *Watch) noteHost(pid string, from *origin, environ []string) (program string) {
	exe, err := os.Readlink(w.own + "/" + pid + "/exe")
	if err != nil || strings.TrimSuffix(exe, " (deleted)") == from.Binary || exe == hostShell() && from.Tree != "/" {
		return ""
	}
	root, err := fsutil.OpenRoot(w.own + "/" + pid + "/root")
	if err != nil {
		return ""
	}
	defer root.Close()
	w.noteCores(pid)
	w.noteGroups(pid)
	mpi := false
	for line := range strings.Lines(head(w.own + "/" + pid + "/maps")) {
		path := mapped(line)
		if path == "" || strings.HasSuffix(path, " (deleted)") {
			continue
		}
		mpi = mpi || isMPI(path)
		in, foreign := from.inside(path)
		if !foreign {
			w.keep(root, in, path)
		} else if len(w.foreign) < mostForeign {
			w.foreign[path] = true
		}
	}
	if mpi {
		w.noteMPI(pid, environ)
	}
	program = from.program(exe, head(w.own+"/"+pid+"/cmdline"))
	if at, _ := from.inside(exe); program != "" && program != at {
		if len(w.loaded) < mostFiles {
			w.loaded[program] = true
		}
	}
	return program
}

// ownExecutable is the link to a process's executable, which is the loader where that has
// started it (ld.so(8)).
const ownExecutable = "/proc/self/exe"

// isSetID reports whether a program runs as another user or group, which the loader does not do.
func isSetID(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0
}

// A finder looks for a text in what is written.
type finder struct {
	text, tail []byte
	found      bool
}

// Write implements io.Writer.
func (f *finder) Write(p []byte) (int, error) {
	all := append(f.tail, p...)
	f.found = f.found || bytes.Contains(all, f.text)
	f.tail = slices.Clone(all[max(0, len(all)-len(f.text)+1):])
	return len(p), nil
}

func hostShell() string {
	real, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		return "/bin/sh"
	}
	return real
}

// program is the program of a process by its path in the image. The executable of one that
// the image's loader has started is the loader.
func (o *origin) program(exe, cmdline string) string {
	words := strings.Split(cmdline, "\x00")
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "--inhibit-cache":
		case "--library-path", "--argv0":
			i++
		default:
			if i == 1 { // no loader
				in, _ := o.inside(exe)
				return in
			}
			in, _ := o.inside(words[i])
			return in
		}
	}
	in, _ := o.inside(exe)
	return in
}
