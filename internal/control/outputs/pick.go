package outputs

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// picking is an output of which a directory travels, and some is picked from that.
type picking struct {
	to, from string          // as in the job
	pattern  string          // below the directory; "": all of it
	longer   string          // then, its name where another output has the short one
	taken    map[string]bool // names that earlier outputs have, see unused
	replace  bool            // as in spec.Output
	// elsewhere fetches the target of a link that lies outside of the directory in the
	// volume; nil: all of the volume was fetched.
	elsewhere func(name, into string) error
}

// pick has fill bring the directory of an output home, and puts what its pattern matches
// to its place; all of it where there is no pattern. Links lead to what they lead to in
// that directory; one that leads to nothing there is reported and stays behind.
func (c *Collector) pick(ctx context.Context, p picking, fill func(into string) error) error {
	if err := c.Within.Check(p.to); err != nil {
		return c.Failed(err)
	}
	if err := fsutil.MkdirAll(p.to, 0o777); err != nil {
		return c.Failed(err)
	}
	root, err := c.Within.Open(p.to)
	if err != nil {
		return c.Failed(err)
	}
	defer root.Close()
	temp := picked(c.Run.ID) // left by a process that was killed, perhaps
	if err := errors.Join(root.RemoveAll(temp), root.Mkdir(temp, 0o700)); err != nil {
		return c.Failed(err)
	}
	defer root.RemoveAll(temp) // the next attempt removes it
	seen, _ := splitGlob(p.from)
	name, staged, linked := path.Join(temp, "tree", path.Base(seen)), path.Join(temp, "staged"), path.Join(temp, "linked")
	if err := errors.Join(root.Mkdir(path.Dir(name), 0o700), root.Mkdir(staged, 0o700), root.Mkdir(linked, 0o700)); err != nil {
		return c.Failed(err)
	}
	if err := fill(root.Path(name)); err != nil {
		return c.Failed(err)
	}
	if p.pattern == "" {
		switch there, err := root.Exists(name); {
		case err != nil:
			return c.Failed(err)
		case !there:
			return nil
		}
		return c.settle(ctx, name, p.place(path.Base(name), p.longer))
	}
	tree, err := root.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return c.Failed(err)
	}
	defer tree.Close()
	tree.Seen = seen
	return c.pickMatches(ctx, p, pickRoots{root, tree, name, staged, linked})
}

// pickRoots are where matches are picked from and prepared.
type pickRoots struct {
	root, tree *fsutil.Root // the directory that outputs go to, and below it the one that was fetched
	// fetched is the place of tree below root. staged and linked are there as well: prepared
	// copies, and files that were fetched as a link leads to them.
	fetched, staged, linked string
}

// pickMatches moves what the pattern of an output matches in a tree to its place.
func (c *Collector) pickMatches(ctx context.Context, p picking, in pickRoots) error {
	matches, err := in.tree.Glob(p.pattern)
	if err != nil {
		return c.Failed(err)
	}
	var elsewhere func(name, as string) error
	if p.elsewhere != nil {
		elsewhere = func(name, as string) error { return p.elsewhere(name, in.root.Path(path.Join(in.linked, as))) }
	}
	found, lost := resolved(in.tree, matches)
	found, left, err := fetchLinked(found, lost, elsewhere)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		c.Site.Record(ctx, event.DanglingLinks{From: p.from, Count: len(left), First: left[0]})
	}
	stage, err1 := in.root.Sub(in.staged)
	others, err2 := in.root.Sub(in.linked)
	if err := errors.Join(err1, err2); err != nil {
		return c.Failed(err)
	}
	defer stage.Close()
	defer others.Close()
	sharing, lacks := map[string]int{}, event.OutputsMissing{}
	for _, m := range found {
		sharing[path.Base(m.name)]++
	}
	for i, m := range found {
		as := path.Base(m.name)
		if sharing[as] > 1 {
			as = m.name
		}
		o, from := treesync.Outputs{In: in.tree, Stage: stage, Left: func(name string, why treesync.Why) {
			if lacks.More++; lacks.More <= namedLeft {
				lacks.Left = append(lacks.Left, event.LeftOutput{Path: name, Why: string(why)})
			}
		}}, in.fetched
		if m.elsewhere {
			o.In, from = others, in.linked
		}
		is, apart, perr := o.Prepare(ctx, m.is, strconv.Itoa(i))
		if apart {
			from = in.staged
		}
		if perr != nil {
			err = errors.Join(err, c.Failed(perr))
		} else if is != "" {
			err = errors.Join(err, c.settle(ctx, path.Join(from, is), p.place(as, m.name)))
		}
	}
	if lacks.More -= len(lacks.Left); len(lacks.Left) > 0 {
		c.Site.Record(ctx, lacks)
	}
	return err
}

// place is the place of what was picked.
func (p picking) place(name, longer string) output {
	return output{to: p.to, name: unused(p.taken, p.to, name, longer), replace: p.replace, partial: true}
}

// takeOut puts what a pattern matches in an image into a directory.
func (c *Collector) takeOut(ctx context.Context, image *dataimage.Image, pattern string, out spec.Output, taken map[string]bool) error {
	var wanted []string
	if pattern != "" {
		wanted = []string{pattern}
	}
	return c.pick(ctx, picking{out.To, c.Job.Volume.Path, pattern, "", taken, out.Replace, nil}, func(into string) error { return image.Unload(ctx, into, wanted) })
}
