package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Bounds of one choice: how deep indexes are nested, and how many documents are read.
const (
	maxNesting   = 4
	maxDocuments = 100
)

// chooser collects the manifests of an index that fit a platform.
type chooser struct {
	want  v1.Platform
	get   fetch
	read  int // documents so far
	found []candidate
	have  []string // platforms that do not fit
	other error    // the first entry that is no image
}

// candidate is a manifest and how well its platform fits; higher is better.
type candidate struct {
	manifest []byte
	rank     int
}

// choose returns the manifest of an index that fits a platform best. Of equal ones the
// first wins. tag, if not empty, restricts the index's own entries.
func choose(ctx context.Context, raw []byte, want v1.Platform, tag string, get fetch) ([]byte, error) {
	c := &chooser{want: want, get: get}
	if err := c.index(ctx, raw, tag, nil, 0); err != nil {
		return nil, err
	}
	switch {
	case len(c.found) > 0:
		return slices.MaxFunc(c.found, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) }).manifest, nil
	case len(c.have) > 0:
		return nil, notFor(want, c.have...)
	case c.other != nil:
		return nil, c.other
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "find image", Err: fmt.Errorf("there is none for %s", want), Remedy: "Build it for that platform, or set `platform:`."}
}

// index adds the candidates of an index. above is the platform of the index itself, for
// entries without one.
func (c *chooser) index(ctx context.Context, raw []byte, tag string, above *v1.Platform, depth int) error {
	if depth >= maxNesting {
		return invalid("read index", errors.New("indexes are nested too deep"))
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return invalid("read index", err)
	}
	list := index.Manifests
	if tag != "" {
		list = called(list, tag)
	}
	for _, d := range list {
		if err := c.entry(ctx, d, above, depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *chooser) entry(ctx context.Context, d v1.Descriptor, above *v1.Platform, depth int) error {
	if !isImage(d) {
		c.note(kindError(string(d.MediaType)))
		return nil
	}
	platform := d.Platform
	if platform == nil {
		platform = above
	}
	rank := 0
	if platform != nil {
		var ok bool
		if rank, ok = fit(*platform, c.want); !ok {
			c.lacks(*platform)
			return nil
		}
	}
	if c.read++; c.read > maxDocuments {
		return invalid("read index", errors.New("it lists too many images"))
	}
	raw, err := document(ctx, d, c.get)
	if err != nil {
		return err
	}
	if d.MediaType.IsIndex() || isIndex(raw) {
		return c.index(ctx, raw, "", platform, depth+1)
	}
	if err := otherKind(raw); err != nil {
		c.note(err)
		return nil
	}
	if platform == nil {
		i, err := assemble(ctx, raw, c.get)
		if err != nil {
			return err
		}
		have := i.platform(c.want)
		var ok bool
		if rank, ok = fit(have, c.want); !ok {
			c.lacks(have)
			return nil
		}
	}
	c.found = append(c.found, candidate{raw, rank})
	return nil
}

func (c *chooser) note(err error) {
	if c.other == nil {
		c.other = err
	}
}

func (c *chooser) lacks(p v1.Platform) {
	if name := p.String(); !slices.Contains(c.have, name) {
		c.have = append(c.have, name)
	}
}

// fit reports whether a host of the platform want runs an image for have, and how much
// of the host that image uses. As containerd does, a host without a stated variant is
// of the first one: linux/amd64 is v1, linux/arm64 is v8.
func fit(have, want v1.Platform) (rank int, ok bool) {
	if have.OS != want.OS || architecture(have) != architecture(want) {
		return 0, false
	}
	least := variant(have)
	return least, least <= variant(want)
}

// architecture is the platform's under the name that Go gives it.
func architecture(p v1.Platform) string {
	switch p.Architecture {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return p.Architecture
}

// variant is the number of a platform's variant in tenths: v9.2 is 92. One that is
// written otherwise fits no host.
func variant(p v1.Platform) int {
	if p.Variant == "" {
		switch architecture(p) {
		case "amd64":
			return 10
		case "arm64":
			return 80
		case "arm":
			return 70
		}
		return 0
	}
	f, err := strconv.ParseFloat(strings.TrimPrefix(p.Variant, "v"), 64)
	if err != nil || f < 0 || f > 1000 {
		return 1 << 20
	}
	return int(f*10 + 0.5)
}

// platform is what the image's configuration says; what it leaves out is taken from want.
func (i *Image) platform(want v1.Platform) v1.Platform {
	have := want
	have.OS, have.Architecture, have.Variant = cmp.Or(i.File.OS, want.OS), cmp.Or(i.File.Architecture, want.Architecture), cmp.Or(i.File.Variant, want.Variant)
	return have
}

// Check refuses an image for another platform: a source that has one image returns it
// whatever was asked for. A variant of that one image counts only where one was asked
// for.
func (i *Image) Check(want v1.Platform) error {
	have := i.platform(want)
	asked := have
	if want.Variant == "" {
		asked.Variant = ""
	}
	if _, ok := fit(asked, want); ok {
		return nil
	}
	return notFor(want, have.String())
}

// notFor is the error where there are images for other platforms only.
func notFor(want v1.Platform, have ...string) error {
	return &core.Error{
		Kind: core.NotFound, Op: "find image", Err: fmt.Errorf("there is none for %s", want),
		Remedy: "There is one for " + strings.Join(have, ", ") + " (--platform).",
	}
}
