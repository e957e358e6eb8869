package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// KeepBy implements driver.Bucket. The host's word counts for its own site alone: it stores no object that is there, and
// none but packs and trees, whose names end with that site. Checkpoints of other sites refer to none of these. That they are
// there is looked at before the manifest is written.
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
	maps.DeleteFunc(there, func(name string, _ int64) bool {
		own := strings.TrimPrefix(name, s.prefix)
		return !strings.HasPrefix(own, manifests) && !isFor(site, path.Base(own))
	})
	d := &desk{s, site, there}
	raw, err := upload(ctx, d.answer)
	if err != nil {
		return driver.Manifest{}, false, err
	}
	m := parseManifest(g, raw)
	if m.broken {
		return driver.Manifest{}, false, &core.Error{Kind: core.Invalid, Op: "read the manifest that site has made", Object: site, Err: errors.New("it is damaged"), Remedy: core.RemedyVersions}
	}
	m.Attempt, m.Site = g.Attempt, site
	var mended []string
	for _, list := range []struct {
		prefix  string
		objects []object
	}{{packs, m.Packs}, {trees, m.Tree}} {
		for i := range list.objects {
			name, _, _ := d.place(list.prefix + list.objects[i].Name)
			list.objects[i].Name = path.Base(name)
			if mark := s.prefix + bad + path.Base(name); d.isMarked(name) {
				mended = append(mended, mark)
			}
		}
	}
	if err := s.present(ctx, m); err != nil {
		if isDamage(err) {
			err = &core.Error{Kind: core.Lost, Op: "look at what site has stored", Object: site, Err: err}
		}
		return driver.Manifest{}, false, err
	}
	if err := s.objects.Delete(ctx, mended); err != nil {
		return driver.Manifest{}, false, err
	}
	return s.record(ctx, &m, g, begun)
}

// desk answers a host that stores a tree.
type desk struct {
	*checkpoints
	site string
	// there are the objects of the run that the site may use, with their sizes.
	there map[string]int64
}

// isMarked reports whether damage was found in an object.
func (d *desk) isMarked(name string) bool {
	_, is := d.there[d.prefix+bad+path.Base(name)]
	return is
}

// place returns by which name an object is there, undamaged, or is stored by the site.
func (d *desk) place(name string) (at string, size int64, is bool) {
	for _, at = range []string{name, contentOf(name) + ofSite(d.site)} {
		if size, is = d.there[d.prefix+at]; is && !d.isMarked(at) {
			return at, size, true
		}
	}
	return at, 0, false
}

// objectForm is the form of the names of what a host may store.
var objectForm = regexp.MustCompile(`^(packs/[0-9]{1,2}-|trees/)[0-9a-f]{64}$`)

// answer implements driver.SignObject.
func (d *desk) answer(ctx context.Context, q driver.ObjectRequest) (driver.ObjectAnswer, error) {
	refuse := func(why string) (driver.ObjectAnswer, error) {
		return driver.ObjectAnswer{}, &core.Error{Kind: core.Unsupported, Op: "sign a request for", Object: core.Printable(q.Name, 100), Err: errors.New(why), Remedy: core.RemedyVersions}
	}
	name := q.Name
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
		if _, is := d.there[d.prefix+name]; !is || !strings.HasPrefix(q.Name, manifests) && !strings.HasPrefix(q.Name, packs) {
			return refuse("it is no object that a host has to read")
		}
	case driver.StoreObject:
		if !objectForm.MatchString(name) || q.Size < 1 || q.Size > mostObject {
			return refuse(fmt.Sprintf("a host stores no object of that name and %d bytes", q.Size))
		}
		var size int64
		var is bool
		switch name, size, is = d.place(name); {
		case is && size == q.Size:
			return driver.ObjectAnswer{There: true}, nil
		case is:
			return refuse(fmt.Sprintf("it is there, with %d bytes and not %d", size, q.Size))
		}
	default:
		return refuse("the request is not known: " + core.Printable(string(q.Op), 20))
	}
	url, err := d.objects.Sign(ctx, q.Op, d.prefix+name, q.Size)
	return driver.ObjectAnswer{URL: url}, err
}
