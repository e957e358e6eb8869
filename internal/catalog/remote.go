package catalog

import (
	"context"
	"fmt"
	"os"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/remote"
	"github.com/bee-hpc/bee/internal/spec"
	"golang.org/x/sys/unix"
)

// Remote fetches remote inputs and sends remote outputs.
type Remote struct{}

// Fetch implements runner.Remote.
func (Remote) Fetch(ctx context.Context, in spec.Input, to string, progress func(done int64)) error {
	r, _, err := spec.ParseRemote(in.From)
	if err != nil {
		return &core.Error{Kind: core.Invalid, Op: "fetch", Object: in.From, Err: err}
	}
	return (&remote.Fetcher{}).Fetch(ctx, fileOf(r, in, to), to, progress)
}

// fileOf is a remote input, in the version that was fetched before to the same path.
func fileOf(r spec.Remote, in spec.Input, to string) remote.File {
	file := remote.File{URL: r.URL, Bucket: r.Bucket, Key: r.Key, Endpoint: r.Endpoint, Region: r.Region, Profile: r.Profile, SHA256: in.SHA256}
	if r.URL == "" && in.SHA256 == "" {
		file.Tag = remote.Wanted(to)
	}
	return file
}

// Away implements runner.Remote.
func (Remote) Away(ctx context.Context, in spec.Input, to string) (driver.Download, error) {
	r, _, err := spec.ParseRemote(in.From)
	if err != nil {
		return driver.Download{}, &core.Error{Kind: core.Invalid, Op: "fetch", Object: in.From, Err: err}
	}
	file, err := remote.Away(ctx, fileOf(r, in, to))
	if err != nil {
		return driver.Download{}, err
	}
	return driver.Download{URL: file.URL, Name: file.Name, Signed: file.Signed, SHA256: file.SHA256, Tag: file.Tag}, remote.Want(to, file.Tag)
}

// Arrived implements runner.Remote.
func (Remote) Arrived(d driver.Download, got driver.Downloaded, to string) error {
	switch {
	case d.SHA256 != "": // which the site has compared
		return nil
	case d.Tag != "" && got.Tag != d.Tag:
		return &core.Error{Kind: core.Invalid, Op: "fetch", Object: d.Name, Err: fmt.Errorf("the site has fetched version %q, expected %q", core.Printable(got.Tag, 80), d.Tag), Remedy: "The file has changed meanwhile: run the job again."}
	}
	return remote.Want(to, got.Tag)
}

// downloadTries is how often a site tries a server that does not answer it: the submitting
// machine is asked next.
const downloadTries = 2

// downloadHere fetches a file for the user of another machine to this one.
func downloadHere(ctx context.Context, d driver.Download) (driver.Downloaded, error) {
	file := remote.File{URL: d.URL, Name: d.Name, Signed: d.Signed, SHA256: d.SHA256, Tag: d.Tag, Away: true}
	var st unix.Statfs_t
	if unix.Statfs(d.Dir, &st) == nil {
		file.Most = max(int64(st.Bavail/10*9)*st.Bsize, 1) // others use it, too
	}
	got, err := (&remote.Fetcher{Failed: downloadTries}).FetchAway(ctx, file, d.Dir, d.Part, d.Remote, d.Progress)
	return driver.Downloaded{Size: got.Size, Tag: got.Tag}, err
}

// Place implements runner.Remote.
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

// Send implements outputs.Place.
func (p remotePlace) Send(ctx context.Context, name string, file *os.File, replace bool) error {
	return p.to.Send(ctx, name, file, p.by, replace)
}

// Uploads implements runner.Remote.
func (Remote) Uploads(dir string) ([]string, error) {
	list, err := remote.Uploads(dir)
	var names []string
	for _, u := range list {
		names = append(names, u.String())
	}
	return names, err
}

// AbortUploads implements runner.Remote.
func (Remote) AbortUploads(ctx context.Context, dir string) error { return remote.Abort(ctx, dir) }
