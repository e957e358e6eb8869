package scaffold

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// Convert makes a Beefile from a file of another tool: a batch script of Slurm, a `docker
// run` line, a compose file with one service, a definition file of Apptainer, or a SkyPilot
// task. there reports whether a file of that name is beside it. Invalid: the file is none
// of these, or cannot be read as one.
func Convert(file string, data []byte, there func(name string) bool) (Result, error) {
	convert := map[spec.Kind]func(*draft, string, []byte, func(string) bool) error{
		spec.KindBatch: sbatch, spec.KindCompose: compose, spec.KindSkyPilot: skyPilot, spec.KindDefinition: definition,
	}
	kind := spec.KindOf(file, data)
	does, is := convert[kind]
	if !is && dockerRun.Match(data) {
		does, is = dockerLine, true
		kind = "docker command line"
	}
	if !is {
		return Result{}, &core.Error{
			Kind: core.Invalid, Op: "convert", Object: file, Err: fmt.Errorf("it is a %s", kind),
			Remedy: "Name a batch script of Slurm, a file with a `docker run` line, a compose file, a definition file of Apptainer, or a SkyPilot task.",
		}
	}
	d := newDraft(path.Base(file))
	if err := does(d, file, data, there); err != nil {
		if core.IsKind(err, core.Invalid) {
			return Result{}, err
		}
		return Result{}, &core.Error{Kind: core.Invalid, Op: "convert", Object: file, Err: err, Remedy: "Write the Beefile by hand: `bee init` writes one with comments."}
	}
	return d.result()
}

// nameOf is a job's name after a file.
func nameOf(file string) string {
	base := path.Base(file)
	return strings.TrimSuffix(base, path.Ext(base))
}

// gpus sets the GPUs of each node from a text such as 2, all, gpu:2 or gpu:a100:2.
func (d *draft) gpus(option, text string) {
	number := text[strings.LastIndexAny(text, ":=")+1:]
	if strings.Trim(number, "0123456789") != "" && number != "all" {
		number = "1"
	}
	g, err := spec.ParseGPUs(number)
	if err != nil {
		d.foreign(option, text)
		return
	}
	d.job.GPUs = g
	if kind := strings.Trim(text[:len(text)-len(number)], ":="); kind != "" && kind != "gpu" && kind != "gres/gpu" {
		d.note("%s %s: which kind of GPU a site has, its `slurm: {gres: …}` or `slurm: {constraint: …}` chooses", option, short(text))
	}
}

// mount adds what docker binds: a directory of the site, or, relative to the file, an input.
func (d *draft) mount(option, from, to string, readOnly bool) {
	for _, here := range []string{"$PWD", "${PWD}", "$(pwd)", "`pwd`"} {
		if rest, is := strings.CutPrefix(from, here); is {
			from = "." + rest
		}
	}
	switch {
	case !path.IsAbs(to):
		d.note("%s %s:%s: it is mounted at no absolute path", option, short(from), short(to))
	case from == "." || from == ".." || strings.HasPrefix(from, "./") || strings.HasPrefix(from, "../") || strings.HasPrefix(from, "~/"):
		d.job.Inputs = append(d.job.Inputs, spec.Input{From: from, To: to})
		if !readOnly {
			d.note("%s %s:%s: it is copied to the job; name in `outputs:` what has to come back", option, short(from), short(to))
		}
	case path.IsAbs(from) || strings.HasPrefix(from, "$"):
		d.job.Mounts = append(d.job.Mounts, spec.Mount{From: from, To: to, Write: !readOnly})
		d.note("%s %s:%s: the directory has to exist on the site; for files of this machine use `inputs:`", option, short(from), short(to))
	default:
		d.note("%s %s:%s: there are no named volumes; files of a run belong into its volume, `/work`", option, short(from), short(to))
	}
}

// volumeOption is mount for a text such as ./in:/data:ro.
func (d *draft) volumeOption(option, text string) {
	parts := strings.Split(text, ":")
	switch {
	case len(parts) == 1:
		d.note("%s %s: a directory without a source is not needed", option, short(text))
	case len(parts) > 3:
		d.note("%s %s: it is not HOST:PATH", option, short(text))
	default:
		d.mount(option, parts[0], parts[1], len(parts) == 3 && strings.Contains(","+parts[2]+",", ",ro,"))
	}
}

// workVolume makes the working directory that of the run's volume where files come into it,
// as results are written beside them.
func (d *draft) workVolume() {
	w := d.job.Workdir
	if w == "/" || !path.IsAbs(w) {
		return
	}
	for _, in := range d.job.Inputs {
		if in.To == w {
			d.job.Volume.Path = w
		}
	}
}

// image sets the image; one that is a file of Apptainer's is noted by the checks of the
// Beefile, which say what to write.
func (d *draft) image(ref string) {
	d.job.Image = strings.TrimPrefix(ref, "docker://")
	if err := spec.CheckForeign(d.job.Image); err != nil {
		d.note("image %s: %s", short(ref), core.Remedy(err))
		d.job.Image = ""
		return
	}
	if _, err := spec.ParseJob("image", []byte(fmt.Sprintf("image: %q\n", d.job.Image)), "/"); err != nil {
		d.note("image %s: it is no reference of an image", short(ref))
		d.job.Image = ""
	}
}

// user sets whom processes are inside.
func (d *draft) user(option, text string) {
	switch name, _, _ := strings.Cut(text, ":"); name {
	case "0", "root":
		d.job.User = spec.UserRoot
	case "$(id -u)", "$UID", "${UID}", "`id -u`":
		d.job.User = spec.UserCaller
	default:
		d.note("%s %s: `user:` is root or caller; without it the image's USER counts", option, short(text))
	}
}

// Lines of continuation and of a command of docker's.
var (
	continued = regexp.MustCompile(`\\[ \t]*\r?\n`)
	dockerRun = regexp.MustCompile(`(?m)^[ \t$]*(sudo[ \t]+)?(docker|podman|nerdctl)[ \t]+(container[ \t]+)?run\b`)
)

var errNoImage = errors.New("it names no image")
