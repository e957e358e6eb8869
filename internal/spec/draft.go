package spec

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Draft is a Beefile that was read and is not checked yet: flags of a command
// line may still change its job, and all that is wrong is reported by Finish.
type Draft struct {
	// Job as it was read, with its local paths as they were written.
	Job *Job

	report *report
	read   bool // false: there is no mapping in the file
	// dir is where the file's paths start, and cases are those of its array. Each of them is
	// read of ofCases, which is the file without the array, with these anchors.
	dir     string
	cases   Cases
	ofCases ast.Node
	scripts caseScripts
	anchors map[string][]anchor
	// casesFile is the file that the cases are in; "": none.
	casesFile string
	// links are the elements of `after:` that mean other jobs of the file, whose names are beside.
	links  []Link
	beside []string
}

// ReadDraft reads a Beefile of one job. Its error says that there is none to be read; what
// is wrong in it is reported by Finish.
func ReadDraft(file string) (*Draft, error) {
	data, dir, err := readBeefile(file)
	if err != nil {
		return nil, err
	}
	return parseDraft(file, data, dir), nil
}

// readBeefile returns the text of a Beefile, and where its paths start.
func readBeefile(file string) (data []byte, dir string, err error) {
	if file == "" {
		return nil, "", &core.Error{Kind: core.Invalid, Op: "read Beefile", Err: errors.New("its name is empty"), Remedy: "Name a Beefile; - is standard input."}
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, "", err
	}
	f, err := os.Open(abs) // it may be a pipe of the user's shell
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", &core.Error{Kind: core.NotFound, Op: "read Beefile", Object: file, Err: errors.Unwrap(err), Remedy: "Name a Beefile that you can read; `bee init` writes one."}
	}
	if err != nil {
		return nil, "", FileError("Beefile", file, err)
	}
	defer f.Close()
	if data, err = readBounded(f); err != nil {
		return nil, "", FileError("Beefile", file, err)
	}
	return data, filepath.Dir(abs), nil
}

// parseDraft reads a Beefile of one job.
func parseDraft(file string, data []byte, dir string) *Draft {
	d := newDecoder(file, data)
	d.dir = dir
	documents := d.documents(data)
	if len(documents) > 1 {
		d.report.problem(begins(documents[1]), "", "a second job begins here, and one is wanted")
	}
	if len(documents) != 1 {
		return newDraft(d)
	}
	return d.draft(documents[0])
}

// draft reads the Beefile of a job. Where it has an array, its job is that of the first case.
func (d *decoder) draft(root ast.Node) *Draft {
	ast.Walk(d, root)
	t := newDraft(d)
	t.read = true
	if t.cases = d.casesOf(root); len(t.cases) > 0 {
		t.scripts = caseScripts{}
		d.ofCase, d.caseNumber = t.cases[0], 1
		d.scripts, d.shellValues = t.scripts, map[string]string{}
		t.ofCases, t.anchors = withoutArray(root), d.anchors
	}
	d.decode(root, reflect.ValueOf(t.Job).Elem(), "")
	t.casesFile = d.casesFile
	return t
}

func newDraft(d *decoder) *Draft {
	return &Draft{Job: &Job{Dir: d.dir, Nodes: 1, Volume: Volume{Path: defaultVolume}}, report: d.report, dir: d.dir}
}

// decodeCase reads a case, by its number from 1. The file's text is parsed once for all.
func (t *Draft) decodeCase(number int) *Draft {
	d := &decoder{
		report: t.report.fresh(), anchors: t.anchors, dir: t.dir,
		ofCase: t.cases[number-1], caseNumber: number, scripts: t.scripts, shellValues: map[string]string{},
	}
	one := newDraft(d)
	one.read = true
	d.decode(t.ofCases, reflect.ValueOf(one.Job).Elem(), "")
	if one.Job.Env == nil {
		one.Job.Env = map[string]string{}
	}
	maps.Copy(one.Job.Env, d.shellValues)
	return one
}

// DraftOf reads the text of a Beefile that is in no file. Its relative paths start at dir;
// file names it in messages.
func DraftOf(file string, data []byte, dir string) *Draft { return parseDraft(file, data, dir) }

// Flag notes that a flag has given the value of a key, such as "nodes": what is
// wrong with it is reported by the flag's name.
func (t *Draft) Flag(key, flag string) {
	maps.DeleteFunc(t.report.failed, func(p string, _ bool) bool { return p == key || isBelow(p, key) })
	for _, at := range []map[string]*token.Token{t.report.places, t.report.values} {
		maps.DeleteFunc(at, func(p string, _ *token.Token) bool { return isBelow(p, key) })
	}
	t.report.flags[key] = flag
}

// Refuse adds what is wrong with a flag that stands for no key.
func (t *Draft) Refuse(flag, hint, format string, args ...any) {
	t.report.problems = append(t.report.problems, Problem{File: flag, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// CheckSites finds the sites that the job names and that are not there.
func (t *Draft) CheckSites(f SitesFile) {
	if !t.read {
		return
	}
	for i, name := range t.Job.Sites {
		if slices.ContainsFunc(f.Sites, func(s Site) bool { return s.Name == name }) {
			continue
		}
		where, remedy := noSite(name, f.Sites, f.Path)
		t.report.at(fmt.Sprintf("sites[%d]", i), strings.TrimSuffix(remedy, "."), "sites: %q is not in %s", name, where)
	}
}

// Finish checks the job and fills in its defaults. Its error, of kind Invalid,
// holds all that is wrong.
func (t *Draft) Finish() (*Job, error) {
	if t.read {
		t.Job.implyAfter()
		(&jobCheck{t.report, t.Job}).all()
		if a := t.Job.Array; a != nil && len(t.cases) == 0 && len(a.kept()) > 0 && t.report.allRead(arrayKey) {
			t.report.atKey(arrayKey, "write it there, not merged from elsewhere", "array: its cases are not in the file's own mapping")
		}
	}
	if err := asError(t.report.problems); err != nil {
		return nil, err
	}
	t.Job.complete(t.report.file)
	return t.Job, nil
}

// Both gives the problems of two files or jobs as one error, each once; of two errors the first,
// where one of them is no list of problems.
func Both(one, two error) error {
	a, isA := errors.AsType[*Errors](one)
	b, isB := errors.AsType[*Errors](two)
	switch {
	case isA && isB:
		known := make(map[Problem]bool, len(a.Problems))
		for _, p := range a.Problems {
			known[p] = true
		}
		all := slices.Clone(a.Problems)
		for _, p := range b.Problems {
			if !known[p] {
				all = append(all, p)
			}
		}
		return &core.Error{Kind: core.Invalid, Err: &Errors{all}}
	case one != nil:
		return one
	}
	return two
}
