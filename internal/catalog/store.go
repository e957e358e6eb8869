package catalog

import (
	"context"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/sshlink"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/store/s3"
	sshstore "github.com/bee-hpc/bee/internal/store/ssh"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/volume/burst/remote/far"
)

// Store opens the store that a `store:` names.
func Store(store string, o Options) (driver.Store, error) {
	s, err := spec.ParseStore(store)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use the store", Object: store, Err: err}
	}
	switch {
	case s.Host != "":
		return sshstore.New(sshlink.New(sshlink.Settings{Progress: o.Progress, BinaryFor: o.binaryFor}), s.Host, s.Dir), nil
	case s.Bucket != "":
		objects, err := s3.NewS3(context.Background(), s3.Settings{Bucket: s.Bucket, Prefix: s.Prefix, Endpoint: s.Endpoint, Region: s.Region, Profile: s.Profile})
		if err != nil {
			return nil, err
		}
		return s3.New(store, objects), nil
	}
	return dirstore.Store(s.Dir), nil
}

// FarVolume opens a directory of a host behind ssh, as the remote of a burst buffer.
func FarVolume(p remote.Place, o remote.Options) (remote.Remote, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return far.Open(sshlink.New(sshlink.Settings{BinaryFor: Options{Binary: binary}.binaryFor}), p, o), nil
}

// LocalStore opens the checkpoints in a directory of this machine, and calls between after
// each thing that it writes.
func LocalStore(dir string, between func()) driver.Checkpoints {
	return dirstore.Stepped{Checkpoints: dirstore.Checkpoints(dir), Between: between}
}
