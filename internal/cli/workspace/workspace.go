// Package workspace opens what commands work with: the state, with a controller
// over it, the image cache and the sites file. It knows no command.
package workspace

import (
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// Workspace is what a command works with: where records, images and sites are, and where
// to write.
type Workspace struct {
	*console.Console
	StateDir string
	CacheDir string
	noPath   string // the value of --state, where it is no path
	Sites    string
	Version  string // of bee
	// Args are the arguments of this command, which the copy of another bee may get.
	Args []string
	// sitesFile, if set, returns the sites file in place of reading it again.
	sitesFile func() (spec.SitesFile, error)
	// execute becomes another program.
	execute func(path string, args []string) error
}

// New returns a workspace whose directories are open until Paths is called.
func New(stdout, stderr io.Writer, version string) *Workspace {
	return &Workspace{Console: &console.Console{Stdout: stdout, Stderr: stderr}, Version: version, execute: executeProgram}
}

// ReadingSitesOnce returns a copy that reads the sites file at most once.
func (a *Workspace) ReadingSitesOnce() *Workspace {
	own := *a
	own.sitesFile = sync.OnceValues(a.FindSites)
	return &own
}

// WritingTo returns a copy that writes to other streams.
func (a *Workspace) WritingTo(stdout, stderr io.Writer) *Workspace {
	own, streams := *a, *a.Console
	streams.Stdout, streams.Stderr = stdout, stderr
	own.Console = &streams
	return &own
}

// Origin is this process as the origin of a run.
func (a *Workspace) Origin(beefile string) submission.Origin {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return submission.Origin{Beefile: beefile, Dir: WorkingDir(), Version: a.Version, User: name}
}

// WorkingDir returns the working directory, or a dot where it cannot be read.
func WorkingDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	return dir
}

// There reports whether a file is there.
func There(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// Paths fills in the directories that flags left open.
func (a *Workspace) Paths() error {
	home := func(given, variable, xdg, fallback string) (string, error) {
		switch {
		case given != "":
			return filepath.Abs(given)
		case os.Getenv(variable) != "":
			return filepath.Abs(os.Getenv(variable))
		case filepath.IsAbs(os.Getenv(xdg)):
			return filepath.Join(os.Getenv(xdg), "bee"), nil
		}
		dir, err := os.UserHomeDir()
		if err != nil {
			return "", &core.Error{
				Kind: core.Invalid, Op: "find the home directory", Err: err,
				Remedy: "Set HOME, or BEE_STATE and BEE_CACHE.",
			}
		}
		return filepath.Join(dir, fallback, "bee"), nil
	}
	err := a.checkFormerState()
	if err != nil {
		return err
	}
	if a.StateDir, err = home(a.StateDir, "BEE_STATE", "XDG_STATE_HOME", ".local/state"); err != nil {
		return err
	}
	a.CacheDir, err = home(a.CacheDir, "BEE_CACHE", "XDG_CACHE_HOME", ".cache")
	return err
}

// ShortPath is a path, for people: relative to the working directory where that is shorter.
func ShortPath(p string) string {
	wd, err := os.Getwd()
	if err != nil || wd == "/" { // where runs in the background are carried
		return p
	}
	rel, err := filepath.Rel(wd, p)
	if err != nil || strings.HasPrefix(rel, "..") {
		return p
	}
	if rel == "." {
		return "this directory"
	}
	return "./" + rel
}

// Foreign is how a record of another user becomes a run here: what it may use without
// the user's word is in the current directory.
func (a *Workspace) Foreign(what, strange string, t console.Trust) control.Foreign {
	return control.Foreign{
		Dir:   WorkingDir(),
		Allow: func(reaches []spec.Reach) error { return a.Allow(what, strange, reaches, t, false) },
	}
}
