package remote

import (
	"context"
	"errors"
	"net"

	"github.com/bee-hpc/bee/internal/core"
)

// Place is where a remote is: a directory of this machine (Dir), one of a host behind ssh
// (Host, Dir), or the names of a bucket below a prefix.
type Place struct {
	Host string `json:"host,omitempty"`
	Dir  string `json:"dir,omitempty"`

	Bucket string `json:"bucket,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	// Endpoint, Region and Profile are found as AWS's tools do, where they are "".
	Endpoint string `json:"endpoint,omitempty"`
	Region   string `json:"region,omitempty"`
	Profile  string `json:"profile,omitempty"`
}

// None reports whether it is no place.
func (p Place) None() bool { return p == Place{} }

// Options of Open.
type Options struct {
	Volume string           // id of the volume that uses the remote
	Rate   int64            // bytes a second in either direction; 0: no bound
	Notes  string           // directory for notes of uploads
	Keys   *core.BucketKeys // for a bucket; nil: they are found as AWS's tools find them
	Dial   Dial             // to a relay that has credentials for the bucket; nil: there is none
	Fence  bool             // a directory of this machine changes only while its record names the volume
}

// Dial connects with a relay to a bucket. Its errors pass once the relay is back.
type Dial func(ctx context.Context) (net.Conn, error)

// Opener opens a remote. It waits for none.
type Opener func(p Place, o Options) (Remote, error)

// Open is the Opener of directories of this machine, and of buckets.
func Open(p Place, o Options) (Remote, error) {
	rate := &Rate{PerSecond: o.Rate}
	switch {
	case p.Bucket != "":
		s := OpenS3(p, o.Volume, o.Notes, rate)
		s.bucket.keys, s.bucket.dial = o.Keys, o.Dial
		return s, nil
	case p.Host != "":
		return nil, &core.Error{Kind: core.Unsupported, Op: "use remote", Object: p.Host + ":" + p.Dir, Err: errors.New("this process has no way to hosts behind ssh"), Remedy: core.RemedyFault}
	}
	t, err := OpenTree(p.Dir, o.Volume, rate)
	if err != nil || !o.Fence {
		return t, err
	}
	return Fence(t), nil
}
