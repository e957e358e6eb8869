package s3

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// KeepBy implements driver.Bucket. The host's word counts for its own tree alone: it stores no object that is there, and
// none but packs and trees. What it has stored is looked at before the manifest is written.
func (p *bucket) KeepBy(ctx context.Context, run string, g driver.Generation, site string, upload driver.Upload) (driver.Manifest, bool, error) {
	begun, s := time.Now(), &checkpoints{p, run + "/"}
	all, err := s.generations(ctx)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	if kept, whole, err := s.whole(ctx, all, g); whole || err != nil {
		return kept, false, err
	}
	there, err := s.objects.List(ctx, s.prefix)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	d := &desk{checkpoints: s, there: there}
	raw, err := upload(ctx, d.answer)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	m := parseManifest(g, raw)
	if m.broken {
		return driver.Manifest{}, false, &core.Error{Kind: core.Invalid, Op: "read the manifest that site has made", Object: site, Err: errors.New("it is damaged"), Remedy: core.RemedyVersions}
	}
	m.Attempt, m.Site = g.Attempt, site
	if err := s.present(ctx, m); err != nil {
		if isDamage(err) {
			err = &core.Error{Kind: core.Lost, Op: "look at what site has stored", Object: site, Err: err}
		}
		return driver.Manifest{}, false, err
	}
	if err := s.objects.Delete(ctx, d.mended); err != nil {
		return driver.Manifest{}, false, err
	}
	return s.record(ctx, &m, g, begun)
}

// desk answers a host that stores a tree.
type desk struct {
	*checkpoints
	// there are the objects of the run, with their sizes, and mended the marks of damaged packs that are stored again.
	there  map[string]int64
	mu     sync.Mutex
	mended []string
}

// objectForm is the form of the names of what a host may store.
var objectForm = regexp.MustCompile(`^(packs/[0-9]{1,2}-|trees/)[0-9a-f]{64}$`)

// answer implements driver.SignObject.
func (d *desk) answer(ctx context.Context, q driver.ObjectRequest) (driver.ObjectAnswer, error) {
	refuse := func(why string) (driver.ObjectAnswer, error) {
		return driver.ObjectAnswer{}, &core.Error{Kind: core.Unsupported, Op: "sign a request for", Object: core.Printable(q.Name, 100), Err: errors.New(why), Remedy: core.RemedyVersions}
	}
	name := d.prefix + q.Name
	size, is := d.there[name]
	switch q.Op {
	case driver.ListObjects:
		if q.Name != manifests && q.Name != packs && q.Name != bad {
			return refuse("no such list is needed")
		}
		a := driver.ObjectAnswer{List: map[string]int64{}}
		for name, size := range d.there {
			if own := strings.TrimPrefix(name, d.prefix); strings.HasPrefix(own, q.Name) {
				a.List[own] = size
			}
		}
		return a, nil
	case driver.ReadObject:
		if !is || !strings.HasPrefix(q.Name, manifests) && !strings.HasPrefix(q.Name, packs) {
			return refuse("it is no object that a host has to read")
		}
	case driver.StoreObject:
		mark := d.prefix + bad + path.Base(q.Name)
		_, damaged := d.there[mark]
		switch {
		case !objectForm.MatchString(q.Name) || q.Size < 1 || q.Size > mostObject:
			return refuse(fmt.Sprintf("a host stores no object of that name and %d bytes", q.Size))
		case is && !damaged && size == q.Size:
			return driver.ObjectAnswer{There: true}, nil
		case is && !damaged:
			return refuse(fmt.Sprintf("it is there, with %d bytes and not %d", size, q.Size))
		case damaged:
			d.mu.Lock()
			d.mended = append(d.mended, mark)
			d.mu.Unlock()
		}
	default:
		return refuse("the request is not known: " + core.Printable(string(q.Op), 20))
	}
	url, err := d.objects.Sign(ctx, q.Op, name, q.Size)
	return driver.ObjectAnswer{URL: url}, err
}
