package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// buildScript builds an image in a guest. Its arguments are:
//   - the file that becomes the archive of the image,
//   - three for each image that docker shall have: its archive, its name in that, and its name
//     in docker,
//   - "--", and the arguments of docker build.
//
// The proxies of the guest become arguments of the build. The user's own come later, and so
// override them. Guests have docker's own network only on request. The versions of docker in
// the pattern have BuildKit and use it on request only; later ones use it by default.
const buildScript = `set -e
archive=$1
shift
while [ "$1" != -- ]; do
  docker load --quiet --input "$1" >/dev/null
  docker tag "$2" "$3"
  shift 3
done
shift
case $(docker version --format '{{.Client.Version}}') in 18.09.* | 19.* | 20.*) export DOCKER_BUILDKIT=1 ;; esac
for v in http_proxy https_proxy ftp_proxy no_proxy all_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY NO_PROXY ALL_PROXY; do
  if printenv $v >/dev/null; then set -- --build-arg $v "$@"; fi
done
docker build --network host --tag ` + guestTag + ` "$@"
docker save --output "$archive" ` + guestTag

// Names in the guest, where the volume is the working directory.
const (
	guestTag     = "bee.local/build:1"
	guestContext = "context"
	guestFile    = "Dockerfile" // of one that is not in the context
	guestVolume  = "/work"
)

// buildInGuest builds a Dockerfile's image in a virtual machine of this host: by a run of
// its own, which is forgotten when it is over. One whose bee was killed is ended by
// `bee supervise`, or by the next run.
func (a *Workspace) buildInGuest(ctx context.Context, b image.GuestBuild) (int, error) {
	s, err := a.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	empty, err := s.Images.Empty(ctx)
	if err != nil {
		return 0, err
	}
	run, lock, err := submission.Submit(ctx, s.Store, guestSubmission(b, empty.ID))
	if err != nil {
		return 0, err
	}
	s.KeepBinary(ctx)
	s.Report = guestReport(b.Progress)
	s.Output = func(f tasklog.Frame) error {
		if ctx.Err() != nil { // what it says of its end explains nothing
			return nil
		}
		_, err := b.Output.Write(f.Data)
		return err
	}
	stop := make(chan struct{})
	defer context.AfterFunc(ctx, func() { close(stop) })()
	whole := context.WithoutCancel(ctx) // what was begun is undone
	ended, err := s.Drive(whole, run.ID, stop)
	if uerr := lock.Unlock(); err == nil {
		err = uerr
	}
	if err != nil {
		return 0, err
	}
	if err := s.Garbage().Forget(whole, ended, control.Leaving{}); err != nil {
		return 0, err
	}
	return guestEnd(ended)
}

// guestEnd is how a build's run has ended, as docker's exit code where that ran.
func guestEnd(run state.Run) (int, error) {
	switch {
	case run.State == state.Succeeded:
		return 0, nil
	case run.ExitCode != nil && *run.ExitCode != 0:
		return *run.ExitCode, nil
	}
	return 0, &core.Error{Kind: core.KindNamed(run.Kind), Err: errors.New(cmp.Or(run.Message, string(run.State))), Remedy: run.Remedy}
}

// guestReport reports what a build's run does. That the machine still boots is reported once.
func guestReport(progress func(message string, done, total int64)) func(plan.Event) {
	var once sync.Once
	return func(e plan.Event) {
		switch {
		case e.Message == "":
		case e.Waited > 0:
			once.Do(func() { progress(e.Message, 0, 0) })
		default:
			progress(e.Message, e.Done, e.Total)
		}
	}
}

// guestSubmission is the run of a build on this host, in a virtual machine that is like
// those of the job. empty is the image of its container.
func guestSubmission(b image.GuestBuild, empty string) submission.Submission {
	archive := filepath.Base(b.Archive)
	job := spec.Job{
		Name: "build", Image: empty, Nodes: 1, VM: &spec.VM{}, Dir: filepath.Dir(b.Dockerfile),
		Inputs:  []spec.Input{{From: b.Context, To: path.Join(guestVolume, guestContext)}},
		Outputs: []spec.Output{{From: path.Join(guestVolume, archive), To: filepath.Dir(b.Archive)}},
	}
	job.Volume.Path = guestVolume
	if b.Job != nil {
		job.Name, job.Dir = "build-"+b.Job.Name, b.Job.Dir
	}
	if b.Job != nil && b.Job.VM != nil {
		v := b.Job.VM
		job.VM = &spec.VM{CPUs: v.CPUs, Sockets: v.Sockets, Threads: v.Threads, Memory: v.Memory, Disk: v.Disk, CPU: v.CPU, Accel: v.Accel, Image: v.Image, Packages: v.Packages}
	}
	job.VM.When = spec.VMAlways
	file, err := filepath.Rel(b.Context, b.Dockerfile)
	if err == nil && filepath.IsLocal(file) {
		file = path.Join(guestContext, file)
	} else {
		file = guestFile
		job.Inputs = append(job.Inputs, spec.Input{From: b.Dockerfile, To: path.Join(guestVolume, guestFile)})
	}
	argv := []string{"sh", "-c", buildScript, "sh", archive}
	for i, base := range b.Bases {
		at := fmt.Sprintf("base-%d.tar", i)
		job.Inputs = append(job.Inputs, spec.Input{From: base.Archive, To: path.Join(guestVolume, at)})
		argv = append(argv, at, base.Tag, base.Ref)
	}
	argv = append(argv, "--", "--file", file)
	for _, key := range slices.Sorted(maps.Keys(b.Args)) {
		argv = append(argv, "--build-arg", key+"="+b.Args[key])
	}
	job.Run = &spec.Command{Argv: append(argv, guestContext)}
	return submission.Submission{Job: job, Sites: spec.DefaultSites(), InGuest: true, Pull: "missing"}
}
