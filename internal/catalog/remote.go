package catalog

import (
	"context"
	"os"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/remote"
	"github.com/bee-hpc/bee/internal/spec"
)

// Remote fetches remote inputs and sends remote outputs.
type Remote struct{}

// Fetch implements control.Remote.
func (Remote) Fetch(ctx context.Context, in spec.Input, to string, progress func(done int64)) error {
	r, _, err := spec.ParseRemote(in.From)
	if err != nil {
		return &core.Error{Kind: core.Invalid, Op: "fetch", Object: in.From, Err: err}
	}
	file := remote.File{URL: r.URL, Bucket: r.Bucket, Key: r.Key, Endpoint: r.Endpoint, Region: r.Region, Profile: r.Profile, SHA256: in.SHA256}
	return (&remote.Fetcher{}).Fetch(ctx, file, to, progress)
}

// Place implements control.Remote.
func (Remote) Place(ctx context.Context, place string, by control.Writer) (control.RemotePlace, error) {
	r, _, err := spec.ParseRemoteDir(place)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "send outputs to", Object: place, Err: err}
	}
	to, err := remote.NewSender(ctx, remote.Place{Bucket: r.Bucket, Prefix: r.Key, Endpoint: r.Endpoint, Region: r.Region, Profile: r.Profile})
	if err != nil {
		return nil, err
	}
	to.Notes = by.Uploads
	return remotePlace{to, remote.Stored{Run: by.Run, Writer: by.Name}}, nil
}

type remotePlace struct {
	to *remote.Sender
	by remote.Stored
}

// Send implements control.RemotePlace.
func (p remotePlace) Send(ctx context.Context, name string, file *os.File, replace bool) error {
	return p.to.Send(ctx, name, file, p.by, replace)
}

// Uploads implements control.Remote.
func (Remote) Uploads(dir string) ([]string, error) {
	list, err := remote.Uploads(dir)
	var names []string
	for _, u := range list {
		names = append(names, u.String())
	}
	return names, err
}

// AbortUploads implements control.Remote.
func (Remote) AbortUploads(ctx context.Context, dir string) error { return remote.Abort(ctx, dir) }
