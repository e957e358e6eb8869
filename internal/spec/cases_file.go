package spec

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/goccy/go-yaml/ast"
)

// fileKey names a file of cases where a parameter would be: its value is a text, and that of a
// parameter is not.
const fileKey = "file"

// maxCasesFile bounds a file of cases, in bytes.
const maxCasesFile = 16 << 20

// ofFile reads the cases of a file where a mapping names one; false: it has parameters.
func (c *Cases) ofFile(d *decoder, n ast.Node, path string) bool {
	fields := topFields(d.plain(n))
	if len(fields) != 1 || fields[0].Key.GetToken().Value != fileKey {
		return false
	}
	value := d.plain(fields[0].Value)
	switch value.(type) {
	case *ast.StringNode, *ast.LiteralNode:
	default:
		return false
	}
	path = join(path, fileKey)
	name, is := d.text(value, path)
	if !is {
		return true
	}
	refuse := func(hint, format string, args ...any) bool {
		d.report.problem(begins(value), hint, "%s%s", prefix(path), fmt.Sprintf(format, args...))
		return true
	}
	var read func(*casesFile)
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		read = (*casesFile).csv
	case ".jsonl", ".ndjson":
		read = (*casesFile).jsonl
	default:
		return refuse("a name that ends in .csv or .jsonl", "%q is no file of cases", name)
	}
	if !filepath.IsLocal(name) {
		return refuse("copy it there, and write its name from there", "%q is not in the directory of the Beefile", name)
	}
	d.casesFile = filepath.Join(d.dir, name)
	data, err := fsutil.ReadFile(d.dir, name, maxCasesFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("", "there is no file %q in %s", name, d.dir)
	case err != nil:
		return refuse("", "%v", err)
	}
	f := casesFile{name: name, data: unmarked(data)}
	if !utf8.Valid(f.data) {
		f.wrong(1+bytes.Count(f.data[:invalidAt(f.data)], []byte{'\n'}), 1, "save the file as UTF-8", "it is not in UTF-8")
	} else {
		read(&f)
	}
	d.report.problems = append(d.report.problems, f.problems...)
	if len(f.problems) == 0 {
		*c = f.cases
	}
	return true
}

// invalidAt is where the first bytes are that are no UTF-8.
func invalidAt(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size < 2 {
			break
		}
		at += size
	}
	return at
}

// casesFile is a file of cases that is read.
type casesFile struct {
	name     string
	data     []byte
	cases    Cases
	problems []Problem
}

// mostProblems bounds those that are shown of one file: the others tend to be alike.
const mostProblems = 10

// wrong adds a problem, unless there are enough.
func (f *casesFile) wrong(line, column int, hint, format string, args ...any) {
	if len(f.problems) < mostProblems {
		f.problems = append(f.problems, Problem{File: f.name, Line: line, Column: column, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
}

// checkValue finds a value of a case that no text of a Beefile may have.
func (f *casesFile) checkValue(line, column int, name, value string) {
	if strings.Contains(value, "\x00") {
		f.wrong(line, column, "", "the value of %q has a NUL", name)
	}
}

// csv reads names from the first line, and a case from each other one.
func (f *casesFile) csv() {
	r := csv.NewReader(bytes.NewReader(f.data))
	r.FieldsPerRecord = -1 // see below
	var names []string
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if e, is := errors.AsType[*csv.ParseError](err); is {
			f.wrong(e.Line, e.Column, "double a quote within a quoted cell, and close it", "%v", e.Err)
			return
		}
		if err != nil {
			f.wrong(1, 1, "", "%v", err)
			return
		}
		line, column := r.FieldPos(0)
		switch {
		case names == nil:
			names = cells
			seen := map[string]bool{}
			for i, name := range names {
				if seen[name] {
					at, column := r.FieldPos(i)
					f.wrong(at, column, "", "the parameter %q is there twice", name)
				}
				seen[name] = true
			}
			continue
		case len(cells) != len(names):
			f.wrong(line, column, "a cell for each name of the first line", "the number of cells is %d, and that of the first line is %d", len(cells), len(names))
			continue
		}
		one := Case{}
		for i, cell := range cells {
			at, column := r.FieldPos(i)
			if cell == "" {
				f.wrong(at, column, "write a value", "the value of %q is missing", names[i])
			}
			f.checkValue(at, column, names[i], cell)
			one[names[i]] = cell
		}
		if f.cases = append(f.cases, one); len(f.cases) > mostCases {
			break // which is reported
		}
	}
	if len(f.cases)+len(f.problems) == 0 {
		f.wrong(1, 1, "names of parameters in the first line, and a case in each other one", "it has no case")
	}
}

// jsonl reads a case from each line that is not empty.
func (f *casesFile) jsonl() {
	var names []string
	line := 0
	for text := range bytes.Lines(f.data) {
		if line++; len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		one, why := caseOfLine(text)
		if why == "" && names == nil {
			names = slices.Sorted(maps.Keys(one))
		}
		if why == "" && !slices.Equal(names, slices.Sorted(maps.Keys(one))) {
			why = fmt.Sprintf("it has the parameters %s, and the first case has %s", strings.Join(slices.Sorted(maps.Keys(one)), ", "), strings.Join(names, ", "))
		}
		if why != "" {
			f.wrong(line, 1, `an object in each line, such as {"temperature": 300, "seed": 1}`, "%s", why)
			continue
		}
		for name, v := range one {
			f.checkValue(line, 1, name, v)
		}
		if f.cases = append(f.cases, one); len(f.cases) > mostCases {
			break // which is reported
		}
	}
	if len(f.cases)+len(f.problems) == 0 {
		f.wrong(1, 1, "", "it has no case")
	}
}

// caseOfLine reads an object of texts, numbers and true or false. A number stays as it is
// written.
func caseOfLine(text []byte) (one Case, why string) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var values map[string]any
	if err := d.Decode(&values); err != nil {
		return nil, err.Error()
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, "something follows the object"
	}
	if len(values) == 0 {
		return nil, "it has no parameter"
	}
	one = Case{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch v := values[name].(type) {
		case string, json.Number, bool:
			one[name] = fmt.Sprint(v)
		default:
			return nil, fmt.Sprintf("the value of %q is no text, number, true or false", name)
		}
	}
	return one, ""
}
