package catalog

import (
	"context"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/checkpoint/bucket"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh"
	"github.com/bee-hpc/bee/internal/spec"
)

// Place opens what a `store:` names.
func Place(store string, o Options) (driver.Store, error) {
	s, err := spec.ParseStore(store)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use the store", Object: store, Err: err}
	}
	switch {
	case s.Host != "":
		return ssh.NewPlace(o.behind(spec.Site{Name: store}, []string{s.Host}), s.Dir)
	case s.Bucket != "":
		objects, err := bucket.NewS3(context.Background(), bucket.Settings{Bucket: s.Bucket, Prefix: s.Prefix, Endpoint: s.Endpoint, Region: s.Region, Profile: s.Profile})
		if err != nil {
			return nil, err
		}
		return bucket.New(store, objects), nil
	}
	return checkpoint.Root(s.Dir), nil
}
