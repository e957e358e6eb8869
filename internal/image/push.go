package image

import (
	"context"

	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Push sends an image to a registry: as it was pulled, under the same digest,
// where the cache has its layers; else flattened, as one layer. It gives the
// digest that the image has there; from then on it is called so here, too.
func (s *Store) Push(ctx context.Context, id, ref string, o PullOptions) (string, error) {
	o = o.filled()
	r, err := s.read(id)
	if err != nil {
		return "", err
	}
	target, err := source.ParseRef(ref, o.Insecure)
	if err != nil {
		return "", err
	}
	_, release, err := s.Tree(ctx, id)
	if err != nil {
		return "", err
	}
	defer release()
	c := content{s.dir, r}
	image, err := c.original()
	if err != nil {
		if image, err = c.flattened(ctx); err != nil {
			return "", err
		}
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	rt, err := source.Transport(ctx, target.Context(), transport.PushScope, o.Insecure, o.note)
	if err != nil {
		return "", pushError(ref, err)
	}
	updates, reported := make(chan v1.Update, 16), make(chan struct{})
	go func() {
		defer close(reported)
		for u := range updates {
			o.Progress("pushing", u.Complete, u.Total)
		}
	}()
	err = remote.Write(target, image, remote.WithContext(ctx), remote.WithTransport(rt), remote.WithProgress(updates))
	<-reported
	if err != nil {
		return "", pushError(ref, err)
	}
	if tag, is := target.(name.Tag); is { // so that Beefiles find it by that here, too
		err = s.refs.set(tag.Name(), r.OS+"/"+r.Arch, ref, id)
	}
	return digest.String(), err
}
