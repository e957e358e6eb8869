package mpi

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// CheckInput is what Check looks at.
type CheckInput struct {
	// Root is the image's unpacked tree.
	Root string
	// Argv and Env are those of the job's command.
	Argv, Env []string
	// Hosts is the number of hosts.
	Hosts int
	// Volume is the shared directory inside, VolumeDir the same on this host.
	Volume, VolumeDir string
	// Workdir is the command's working directory inside.
	Workdir string
	// Elsewhere are paths inside whose content is not to be seen here: mounts and inputs.
	Elsewhere []string
}

// Check reports, before the launch, what would end in a hang, in N programs that
// each believe to be alone, or in a bare "not found". Only what is certain is
// an error; what is doubtful is a warning; what it cannot judge it lets pass.
func Check(in CheckInput) (warnings []string, err error) {
	i := newImage(in)
	commands := commandsOf(in.Argv)
	launches := false
	for _, c := range commands {
		if !isLauncher(c.words[0]) {
			continue
		}
		launches = true
		problem := i.checkLaunch(c.words)
		switch {
		case problem == nil:
		case problem.certain && c.sure:
			return warnings, problem.Error
		default:
			warnings = append(warnings, fmt.Sprintf("%v. %s", problem.Error, problem.Remedy))
		}
	}
	if !launches && in.Hosts > 1 {
		if w := i.checkSingleton(commands, in.Hosts); w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings, nil
}

// problem is what is wrong with a launch.
type problem struct {
	*core.Error
	certain bool
}

func (i *image) checkLaunch(words []string) *problem {
	launcher, host := i.program(words[0])
	if host == "" {
		return i.noLauncher(words[0])
	}
	fam := i.launcherFamily(launcher)
	program, known := launched(words)
	if fam == unknown || !known {
		return nil
	}
	inside, host := i.program(program[0])
	if host == "" {
		return nil // mpirun says that itself
	}
	what := program[0]
	lib, from := i.libraryFamily(inside)
	certain := true
	if lib == unknown {
		if what, lib, from, certain = i.pythonFamily(inside, host, program); lib == unknown {
			return nil
		}
	}
	if lib == fam {
		return nil
	}
	remedy := fmt.Sprintf("Start it with the mpirun of %s, the MPI that it is linked to", lib)
	if other := i.otherLauncher(lib); other != "" {
		remedy += ": " + other
	}
	return &problem{&core.Error{
		Kind: core.Invalid, Op: "check the launch of", Object: what,
		Err: fmt.Errorf("%s is %s's, but %s uses %s of %s: every rank would come up as rank 0 of 1",
			launcher, fam, what, from, lib),
		Remedy: remedy + ".",
	}, certain}
}

// noLauncher is the error for an image that lacks the mpirun of the command.
func (i *image) noLauncher(name string) *problem {
	e := &core.Error{
		Kind: core.Invalid, Op: "check the command", Err: fmt.Errorf("the image has no %s", name),
		Remedy: "Add an MPI to the image (Debian: openmpi-bin or mpich): the same one that the program is built with.",
	}
	if !strings.Contains(name, "/") {
		if slices.ContainsFunc(strings.Split(i.env["PATH"], ":"), i.isElsewhere) {
			return nil
		}
		e.Err = fmt.Errorf("the image has no %s in its PATH (%s)", name, i.env["PATH"])
		if others := i.launchers(path.Base(name)); len(others) > 0 {
			e.Remedy = fmt.Sprintf("The image has %s: write that, or put its directory into PATH by `env:`.", strings.Join(others, " and "))
		}
	} else if i.outside(name) || i.isElsewhere(name) {
		return nil
	}
	return &problem{e, true}
}

// isElsewhere reports whether a path is in a place that cannot be looked into.
func (i *image) isElsewhere(inside string) bool {
	if !path.IsAbs(inside) {
		inside = path.Join(i.workdir, inside)
	}
	return slices.ContainsFunc(i.elsewhere, func(place string) bool {
		return strings.HasPrefix(path.Clean(inside)+"/", strings.TrimSuffix(path.Clean(place), "/")+"/")
	})
}

// outside means that a path may be in a mount that is not looked into.
func (i *image) outside(inside string) bool {
	if !path.IsAbs(inside) {
		inside = path.Join(i.workdir, inside)
	}
	parent := path.Dir(path.Clean(inside))
	info, err := os.Stat(filepath.Join(i.root, parent))
	return err != nil || !info.IsDir()
}

// launchers finds launchers where distributions and vendors put them besides
// the PATH.
func (i *image) launchers(name string) []string {
	var list []string
	for _, pattern := range []string{
		"/usr/lib64/*/bin/", "/usr/lib/*/bin/", "/opt/*/bin/", "/opt/*/*/bin/", "/usr/local/*/bin/",
		"/opt/intel/oneapi/mpi/*/bin/", "/opt/hpcx/ompi/bin/", "/usr/mpi/gcc/*/bin/", "/usr/bin/", "/usr/local/bin/",
	} {
		list = append(list, i.glob(pattern+name)...)
	}
	return list
}

// otherLauncher finds a launcher of a family.
func (i *image) otherLauncher(want family) string {
	names := []string{"mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec.hydra"}
	for _, name := range names {
		if inside, host := i.program(name); host != "" && i.launcherFamily(inside) == want {
			return name
		}
	}
	for _, name := range names {
		for _, inside := range i.launchers(name) {
			if i.launcherFamily(inside) == want {
				return inside
			}
		}
	}
	return ""
}

// checkSingleton warns when an MPI program is started without a launcher.
func (i *image) checkSingleton(commands []commandLine, hosts int) string {
	for _, c := range commands {
		if inside, host := i.program(c.words[0]); host != "" && i.isMPI(inside, host, c.words) {
			return fmt.Sprintf("%s is an MPI program, but the command starts it without mpirun: it will be rank 0 of 1, on one of %d hosts", strings.Join(c.words, " "), hosts)
		}
	}
	return ""
}

// isMPI reports whether a command is an MPI program, also one of Python's, but none
// that starts others by mpirun.
func (i *image) isMPI(inside, host string, words []string) bool {
	if lib, _ := i.libraryFamily(inside); lib != unknown {
		return true
	}
	interpreter, script := i.mpi4pyScript(inside, host, words)
	if interpreter == "" || script != "" && (mentions(script, "mpirun") || mentions(script, "mpiexec")) {
		return false
	}
	modules, chooses := i.mpi4py(interpreter)
	return chooses || len(modules) > 0
}
