package inputs

import (
	"context"
	"testing"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// downloading is a lease whose site fetches remote inputs.
type downloading struct{ driver.Lease }

func (d downloading) Downloads() driver.Downloader { return d }

func (downloading) Download(context.Context, driver.Download) (driver.Downloaded, error) {
	return driver.Downloaded{}, nil
}

// TestWhatALaterInputReplaces is brought in the order of the inputs.
func TestWhatALaterInputReplaces(t *testing.T) {
	s := &Stager{Site: &transfer.Site{Lease: downloading{}}, Remote: &Remote{Dir: t.TempDir()}}
	job := spec.Job{Volume: spec.Volume{Path: "/data"}, Inputs: []spec.Input{
		{From: "dir", To: "/data"}, {From: "https://x/one", To: "/data/"}, {From: "https://x/two", To: "/data/sub/"}, {From: "local", To: "/data/sub"}, {From: "s3://bucket/three", To: "/other/three"},
	}}
	left, err := s.LeaveToSite(&job)
	if err != nil || len(left) != 2 || left[0].remote != "volume/one" || left[1].input.From != "s3://bucket/three" || len(job.Inputs) != 3 {
		t.Errorf("left to the site are %+v, %v; here stay %+v", left, err, job.Inputs)
	}
}
