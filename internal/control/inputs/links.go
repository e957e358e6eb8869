package inputs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"golang.org/x/sys/unix"
)

const (
	// mostFollowed bounds the links of all inputs that are replaced by what they lead to.
	mostFollowed = 10000
	// mostLooked is how many entries of inputs are looked at for warnings, and mostWarned
	// how many links are named.
	mostLooked = 20000
	mostWarned = 20
)

// errLooked ends a search for links that has gone far enough.
var errLooked = errors.New("enough was looked at")

// leftLink is a link below an input that stays a link, though its target does not travel.
type leftLink struct{ path, to, why string }

// linkFollower plans what comes in the place of links below inputs. A link stays a link
// where its target travels, too. Otherwise its target comes in its place, if that is below
// own; "": no link is followed. Whatever leads elsewhere stays a link.
type linkFollower struct {
	job     *spec.Job
	own     string
	within  spec.Own // own, where that is not ""
	copies  []Copy
	places  map[Copy]bool // where each copy goes, by local and remote alone
	left    []leftLink
	added   int
	entries int
	most    int // of entries; 0: all
}

func newLinkFollower(job *spec.Job, own string, copies []Copy) *linkFollower {
	f := &linkFollower{job: job, own: own, places: map[Copy]bool{}}
	if own != "" {
		f.within = spec.OwnDir(own)
	}
	for _, c := range copies {
		f.add(c)
	}
	return f
}

func (f *linkFollower) add(c Copy) {
	f.copies = append(f.copies, c)
	f.places[Copy{Local: c.Local, Remote: c.Remote}] = true
}

// follow looks for links in one copy, and plans further ones behind it. above are the
// directories of the links by which it came there: their targets cannot come again.
func (f *linkFollower) follow(ctx context.Context, c Copy, above []string) error {
	info, err := os.Lstat(c.Local)
	switch {
	case err != nil:
		return nil // the transfer reports it
	case info.Mode()&fs.ModeSymlink != 0:
		return f.link(ctx, c, above)
	case !info.IsDir():
		return nil
	}
	top, err := fsutil.OpenRoot(c.Local)
	if err != nil {
		return nil // see above
	}
	defer top.Close()
	return top.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if f.entries++; f.most > 0 && f.entries > f.most {
			return errLooked
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return nil // see above
		}
		if _, err := top.Resolve(name); err == nil {
			return nil
		}
		below := c
		below.Local, below.Remote = filepath.Join(c.Local, name), path.Join(c.Remote, name)
		return f.link(ctx, below, above)
	})
}

// link decides on a link that leads out of its copy, or to nothing in it.
func (f *linkFollower) link(ctx context.Context, c Copy, above []string) error {
	text, err := os.Readlink(c.Local)
	if err != nil {
		return nil // it has changed just now
	}
	leave := func(why string) error {
		f.left = append(f.left, leftLink{c.Local, text, why})
		return nil
	}
	target, err := filepath.EvalSymlinks(c.Local)
	dir := filepath.Dir(c.Local)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return leave("to nothing")
	case errors.Is(err, unix.ELOOP):
		return leave("in a circle")
	case err == nil && f.travels(c.Remote, text, target):
		return nil
	case err != nil || f.own == "" || f.within.Leaves(target):
		return leave("to what the job does not have")
	case slices.ContainsFunc(append(above, dir), func(d string) bool { return contains(target, d) }):
		return leave("in a circle")
	}
	info, err := os.Lstat(target)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return leave("to what is no file or directory")
	}
	if f.added++; f.added > mostFollowed {
		return &core.Error{
			Kind: core.Invalid, Op: "read input", Object: f.job.Inputs[c.Input].From, Err: fmt.Errorf("more than %d links lead out of the job's inputs, to what lies in %s", mostFollowed, f.own),
			Remedy: "Name what they lead to as an input of its own.",
		}
	}
	c.Local, c.Within = target, f.own
	f.add(c)
	return f.follow(ctx, c, append(slices.Clone(above), dir))
}

// travels reports whether a link with a text leads to its target at its new place, too.
func (f *linkFollower) travels(remote, text, target string) bool {
	there := path.Join(path.Dir(remote), text)
	if path.IsAbs(text) {
		rel, inside := Below(f.job.Volume.Path, path.Clean(text))
		if !inside {
			return false
		}
		there = path.Join("volume", rel)
	}
	for dir, rest := target, ""; ; dir, rest = filepath.Dir(dir), path.Join("/", filepath.Base(dir), rest) {
		if remote, is := strings.CutSuffix(there, rest); is && f.places[Copy{Local: dir, Remote: remote}] {
			return true
		}
		if dir == "/" {
			return false
		}
	}
}

// contains reports whether a path is dir, or is below it.
func contains(dir, path string) bool {
	_, inside := Below(dir, path)
	return inside
}

// FollowLinks adds to copies what comes in the place of links in them. own is the directory of
// the user's own Beefile; "": no link is followed.
func FollowLinks(ctx context.Context, job *spec.Job, own string, copies []Copy) ([]Copy, error) {
	if own == "" {
		return copies, nil
	}
	f := newLinkFollower(job, own, copies)
	for _, c := range copies {
		if err := f.follow(ctx, c, nil); err != nil {
			return nil, err
		}
	}
	return f.copies, nil
}

// Warnings reports links below a job's inputs that stay links, though the job does not have
// what they lead to. own is as in FollowLinks.
func Warnings(ctx context.Context, job *spec.Job, own string) []string {
	local := *job
	local.Inputs = slices.DeleteFunc(slices.Clone(job.Inputs), func(in spec.Input) bool { return spec.IsRemote(in.From) })
	local.Volume.From = ""
	copies, _, err := Plan(&local)
	if err != nil {
		return nil // it is reported as an error
	}
	f := newLinkFollower(&local, own, copies)
	f.most = mostLooked
	for _, c := range copies {
		if f.follow(ctx, c, nil) != nil {
			break
		}
	}
	var list []string
	for i, l := range f.left {
		if i == mostWarned {
			return append(list, fmt.Sprintf("%d more links in inputs stay links, and lead to nothing that the job has", len(f.left)-i))
		}
		list = append(list, fmt.Sprintf("inputs: the link %s -> %s stays a link, and leads %s: name its target as an input of its own, or copy it there", l.path, l.to, l.why))
	}
	return list
}
