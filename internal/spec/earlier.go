package spec

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// RunPath is what an earlier run left in its volume.
type RunPath struct {
	// Run is an id, its first letters, or a name.
	Run string `yaml:"run"`
	// Path is relative to the volume.
	Path string `yaml:"path"`
}

// String is how messages name it.
func (p RunPath) String() string { return p.Path + " of run " + p.Run }

// inputForm is Input as a Beefile has it.
type inputForm struct {
	From   inputSource `yaml:"from"`
	To     string      `yaml:"to"`
	SHA256 string      `yaml:"sha256"`
}

// inputSource is a text, or a mapping for what a run left.
type inputSource struct {
	text    string
	earlier RunPath
}

func (s *inputSource) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.object(n, reflect.ValueOf(&s.earlier).Elem(), path)
	default:
		s.text, _ = d.text(n, path)
	}
}

func (in *Input) decode(d *decoder, n ast.Node, path string) {
	var form inputForm
	d.object(n, reflect.ValueOf(&form).Elem(), path)
	*in = Input{From: form.From.text, Earlier: form.From.earlier, To: form.To, SHA256: form.SHA256}
}

// implyAfter has the job begin after the runs of its inputs, unless it names them itself.
func (j *Job) implyAfter() {
	for i, in := range j.Inputs {
		run := in.Earlier.Run
		if run != "" && !slices.ContainsFunc(j.After, func(a After) bool { return a.Run == run }) {
			j.After = append(j.After, After{Run: run, input: i + 1})
		}
	}
}

// longestEarlier bounds the path of an input from a run, in bytes.
const longestEarlier = 4096

// earlierInput finds inputs from runs that name no run, or what is not in a volume.
func (jc *jobCheck) earlierInput(at string, in Input) {
	e := in.Earlier
	if e == (RunPath{}) || !jc.report.allRead(at) {
		return
	}
	at += ".from"
	p := at + ".path"
	switch {
	case strings.TrimSpace(e.Run) == "" || e.Path == "":
		jc.report.at(at, "such as {run: mesh, path: grid.dat}", "%s: both `run` and `path` are needed", at)
	case filepath.IsAbs(e.Path):
		jc.report.at(p, "leave out the path of the volume", "%s: %.200q is absolute, and the path is one in the volume", p, e.Path)
	case !filepath.IsLocal(e.Path):
		jc.report.at(p, "", "%s: %.200q leaves the volume", p, e.Path)
	case strings.ContainsAny(e.Path, `*?[\`):
		jc.report.at(p, "name the directory", "%s: %.200q is a pattern, and one file or directory is wanted", p, e.Path)
	case len(e.Path) > longestEarlier:
		jc.report.at(p, "", "%s: it is longer than %d bytes", p, longestEarlier)
	}
}
