package benchcmd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/spec"
)

// giveSources has a study build programs from a user's sources: directories, or archives by
// their URL and digest.
func (a *Commands) giveSources(ctx context.Context, s *study.Study, from map[string]string) ([]record.Source, error) {
	var all []record.Source
	for _, name := range slices.Sorted(maps.Keys(from)) {
		source, given, err := a.source(ctx, name, from[name])
		if err == nil {
			err = s.Give(name, given)
		}
		if _, ours := errors.AsType[*core.Error](err); ours || core.Interrupted(err) {
			return nil, err
		}
		if err != nil {
			return nil, &core.Error{Kind: core.Invalid, Op: "read", Object: "--source " + name + "=" + from[name], Err: err, Remedy: "Name a directory, or an archive as https://…#sha256=DIGEST. `bee bench show STUDY` names the sources of a study."}
		}
		all = append(all, source)
	}
	return all, nil
}

// giveAgain gives a study the sources of a plan, which have to be the same as then.
func (a *Commands) giveAgain(ctx context.Context, s *study.Study, p *record.Plan) error {
	from := map[string]string{}
	for _, source := range p.Sources {
		from[source.Name] = source.From
	}
	now, err := a.giveSources(ctx, s, from)
	if err != nil {
		return err
	}
	for i, source := range p.Sources {
		if now[i].SHA256 != source.SHA256 {
			return &core.Error{
				Kind: core.Invalid, Op: "continue study", Object: p.Study, Err: fmt.Errorf("the sources of %s in %s have changed since it began", source.Name, source.From),
				Remedy: "Restore them, or start again by `bee bench run`.",
			}
		}
	}
	return nil
}

// buildSources builds the image of a study whose programs are built from sources. A failure
// has the last lines of the build. Each environment would repeat it.
func (a *Commands) buildSources(ctx context.Context, images *image.Store, taker *measure.Taker, p *record.Plan) error {
	if len(p.Sources) == 0 {
		return nil
	}
	job, err := taker.Job(p.Points[0], p.Points[0].Environments[0], "")
	if err != nil {
		return err
	}
	var names []string
	for _, s := range p.Sources {
		names = append(names, s.Name)
	}
	a.benchStep("building " + strings.Join(names, ", "))
	_, err = images.Resolve(ctx, job, runtime.GOARCH, "missing", func(string, int64, int64) {})
	return err
}

// archive is the form of an archive's URL with its digest.
var archive = regexp.MustCompile(`^(https://[^#]+)#sha256[=:]([0-9a-fA-F]{64})$`)

func (a *Commands) source(ctx context.Context, name, from string) (record.Source, study.Given, error) {
	if strings.Contains(from, "://") {
		parts := archive.FindStringSubmatch(from)
		if parts == nil {
			return record.Source{}, study.Given{}, errors.New("an archive is named as https://…#sha256=DIGEST, with the digest that `sha256sum` prints")
		}
		sum := strings.ToLower(parts[2])
		file, err := a.fetchSource(ctx, parts[1], sum)
		return record.Source{Name: name, From: parts[1] + "#sha256=" + sum, SHA256: sum}, study.Given{Path: file, Archive: true}, err
	}
	dir, err := filepath.Abs(from)
	if err != nil {
		return record.Source{}, study.Given{}, err
	}
	sum, err := treeDigest(ctx, dir)
	return record.Source{Name: name, From: dir, SHA256: sum, Commit: commitOf(dir)}, study.Given{Path: dir}, err
}

// fetchSource fetches an archive, unless it was fetched before.
func (a *Commands) fetchSource(ctx context.Context, url, sum string) (string, error) {
	if err := a.Paths(); err != nil {
		return "", err
	}
	dir := filepath.Join(a.CacheDir, "sources")
	if err := fsutil.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, sum)
	if there, err := fsutil.Exists(file); err != nil || there {
		return file, err
	}
	a.benchStep("fetching " + url)
	return file, catalog.Remote{}.Fetch(ctx, spec.Input{From: url, SHA256: sum}, file, func(int64) {})
}

// treeDigest is the digest of the names, modes and contents below a directory.
func treeDigest(ctx context.Context, dir string) (string, error) {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	h := sha256.New()
	err = root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case info.IsDir() && filepath.Base(name) == ".git": // its files change while the sources stay
			return fs.SkipDir
		}
		fmt.Fprintf(h, "%q %v ", name, info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := root.Readlink(name)
			fmt.Fprintf(h, "%q\n", to)
			return err
		case info.Mode().IsRegular():
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := io.Copy(h, f)
			fmt.Fprintf(h, " %d\n", n)
			return err
		}
		return nil
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

// commitOf is the commit that a directory has checked out, or "". No program of git runs,
// since a repository may name programs to run.
func commitOf(dir string) string {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	read := func(name string) string {
		text, _ := root.ReadFile(name, 1<<20) // without it, it is not known
		return string(text)
	}
	head := strings.TrimSpace(read(".git/HEAD"))
	if ref, is := strings.CutPrefix(head, "ref: "); is {
		if head = strings.TrimSpace(read(filepath.Join(".git", ref))); head == "" {
			for line := range strings.Lines(read(".git/packed-refs")) {
				if commit, name, _ := strings.Cut(strings.TrimSpace(line), " "); name == ref {
					head = commit
				}
			}
		}
	}
	if raw, err := hex.DecodeString(head); err != nil || len(raw) < 20 {
		return ""
	}
	return head
}
