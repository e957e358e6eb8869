package remote

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Times of files that other machines fetch: for how long a signed URL lets them begin, and how
// long the bucket may take to name the version of its object.
const (
	signedTime = 15 * time.Minute
	lookTime   = 5 * time.Second
)

// Away returns a file as another machine can fetch it without credentials: what is signed is
// the right to read this one object, for a short time. Unsupported: that machine cannot reach
// it, as its server is on this one.
func Away(ctx context.Context, file File) (File, error) {
	name := file.String()
	if file.URL == "" {
		client, err := newClient(ctx, file)
		if err != nil {
			return file, err
		}
		if file.Tag == "" && file.SHA256 == "" {
			file.Tag = tagOf(ctx, client, file)
		}
		signed, err := s3.NewPresignClient(client).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &file.Bucket, Key: &file.Key}, s3.WithPresignExpires(signedTime))
		if err != nil {
			return file, err
		}
		file = File{URL: signed.URL, SHA256: file.SHA256, Tag: file.Tag, Signed: true}
	}
	file.Name, file.Away = name, true
	u, err := url.Parse(file.URL)
	if err != nil {
		return file, err
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(u.Hostname(), "localhost") {
		return file, &core.Error{Kind: core.Unsupported, Op: "fetch", Object: name, Err: errors.New("its server is on this machine"), Remedy: "Give an address that the hosts of the site can reach."}
	}
	return file, nil
}

// tagOf asks for the version of an object; "": the bucket does not answer here.
func tagOf(ctx context.Context, client *s3.Client, file File) string {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	there, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &file.Bucket, Key: &file.Key})
	if err != nil || !isTag(aws.ToString(there.ETag)) {
		return ""
	}
	return *there.ETag
}

// isTag reports whether a text can be a strong validator, as servers and other machines name
// them.
func isTag(tag string) bool {
	return len(tag) >= 2 && len(tag) <= 1024 && strings.HasPrefix(tag, `"`) && strings.HasSuffix(tag, `"`) && !strings.Contains(tag[1:len(tag)-1], `"`) && !strings.ContainsFunc(tag, func(r rune) bool { return r < ' ' || r > '~' })
}

// tagSuffix is that of the file with the version of an object, beside where it is fetched to.
const tagSuffix = ".tag"

// Wanted is the version of an object that was fetched, or asked for, before; "": none.
func Wanted(to string) string {
	raw, err := fsutil.ReadFile(filepath.Dir(to), filepath.Base(to)+tagSuffix, 1<<11)
	if err != nil || !isTag(string(raw)) {
		return ""
	}
	return string(raw)
}

// Want records the version of an object, for all who fetch it from then on.
func Want(to, tag string) error {
	if !isTag(tag) {
		return nil
	}
	return fsutil.WriteFile(to+tagSuffix, []byte(tag), 0o600)
}

// FetchAway is Fetch of a file for another machine's user, below dir. What has come is in the
// directory of part, which is removed once the file is at its place, and replaces what is there.
// No link below dir is followed: a job may have made it.
func (f *Fetcher) FetchAway(ctx context.Context, file File, dir, part, to string, progress func(done int64)) (Got, error) {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return Got{}, err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(part), 0o700); err != nil {
		return Got{}, err
	}
	if err := root.RemoveAll(part); err != nil { // whole, and of whatever version
		return Got{}, err
	}
	got, err := f.fetch(ctx, file, root.Path(part), progress)
	if err != nil {
		return Got{}, err
	}
	if err := root.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return Got{}, err
	}
	if err := root.Rename(part, root, to); err != nil {
		return Got{}, err
	}
	return got, root.RemoveAll(filepath.Dir(part))
}
