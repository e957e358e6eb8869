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
	matches, err := tree.Glob(p.pattern)
	if err != nil {
		return c.Failed(err)
	}
	var elsewhere func(name, as string) error
	if p.elsewhere != nil {
		elsewhere = func(name, as string) error { return p.elsewhere(name, root.Path(path.Join(linked, as))) }
	}
	found, lost := resolved(tree, matches)
	found, left, err := fetchLinked(found, lost, elsewhere)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		c.Site.Record(ctx, event.DanglingLinks{From: p.from, Count: len(left), First: left[0]})
	}
	stage, err1 := root.Sub(staged)
	others, err2 := root.Sub(linked)
	if err := errors.Join(err1, err2); err != nil {
		return c.Failed(err)
	}
	defer stage.Close()
	defer others.Close()
	lacks := event.OutputsMissing{}
	prepare := func(m match, as string) (at string, err error) {
		o, from := treesync.Outputs{In: tree, Stage: stage, Left: func(name string, why treesync.Why) {
			if lacks.More++; lacks.More <= namedLeft {
				lacks.Left = append(lacks.Left, event.LeftOutput{Path: name, Why: string(why)})
			}
		}}, name
		if m.elsewhere {
			o.In, from = others, linked
		}
		is, apart, err := o.Prepare(ctx, m.is, as)
		switch {
		case err != nil || is == "":
			return "", err
		case apart:
			from = staged
		}
		return path.Join(from, is), nil
	}
	sharing := map[string]int{}
	for _, m := range found {
		sharing[path.Base(m.name)]++
	}
	for i, m := range found {
		as := path.Base(m.name)
		if sharing[as] > 1 {
			as = m.name
		}
		at, perr := prepare(m, strconv.Itoa(i))
		if perr != nil {
			err = errors.Join(err, c.Failed(perr))
		} else if at != "" {
			err = errors.Join(err, c.settle(ctx, at, p.place(as, m.name)))
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
