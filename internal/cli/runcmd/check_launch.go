package runcmd

import (
	"context"
	"runtime"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/spec"
)

// lookTime bounds how long an image is looked into, whose files may be whatever someone has
// made.
const lookTime = 10 * time.Second

// checkLaunch looks for the mpirun of a job's command in its image, where the cache has that:
// the error is what the run would fail with. What is not known is no error.
func (a *Commands) checkLaunch(ctx context.Context, job *spec.Job) (warnings []string, err error) {
	if job.Setup != nil || job.Run == nil { // setup may install one
		return nil, nil
	}
	images, err := a.OpenImages()
	if err != nil {
		return nil, nil // a run reports it
	}
	image, known := images.Known(ctx, job, runtime.GOARCH)
	if !known {
		return nil, nil
	}
	in := mpi.CheckInput{Hosts: job.Nodes, Workdir: image.Config.Workdir(job.Workdir, job.Volume.Path), Elsewhere: []string{job.Volume.Path}, Env: []string{"PATH=" + core.DefaultPath}}
	if in.Argv, err = core.Command(image.Config, job.EntrypointWords(), job.Run.Words()); err != nil {
		return nil, nil // a run reports it
	}
	in.Env = append(in.Env, image.Config.Env...)
	for key, value := range job.Env {
		in.Env = append(in.Env, key+"="+value)
	}
	for _, i := range job.Inputs {
		in.Elsewhere = append(in.Elsewhere, i.To)
	}
	for _, m := range job.Mounts {
		in.Elsewhere = append(in.Elsewhere, m.To)
	}
	type findings struct {
		warnings []string
		err      error
	}
	found := make(chan findings, 1)
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	tree, release, err := images.Tree(ctx, image.ID)
	if err != nil {
		return nil, nil // it has just been removed
	}
	in.Root = tree
	go func() {
		defer release()
		w, err := mpi.Check(in)
		found <- findings{w, err}
	}()
	select {
	case f := <-found:
		return f.warnings, f.err
	case <-ctx.Done():
		return nil, nil
	}
}
