package spec

import (
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Output is what of the volume a run collects.
type Output struct {
	// From is a path or pattern in the containers. A relative one starts at the working
	// directory; it stays relative while that is not known.
	From string `yaml:"from"`
	// To is the local directory, absolute after parsing; default: the Beefile's. Or it is a
	// prefix of objects, s3://BUCKET/PREFIX. It may hold RunID.
	To string `yaml:"to"`
	// Optional outputs may match nothing.
	Optional bool `yaml:"optional" json:",omitempty"`
	// Replace allows an output to replace files that no run of this name wrote.
	Replace bool `yaml:"replace" json:",omitempty"`
}

// Variables of Output.To. The name is known once a Beefile is read, the id once the run is
// submitted.
const (
	RunID   = "${run.id}"
	runName = "${run.name}"
)

// outputForm is Output without its own decode, so that object can fill it.
type outputForm Output

// decode reads a path or pattern, or a mapping.
func (o *Output) decode(d *decoder, n ast.Node, path string) {
	if text, is := n.(*ast.StringNode); is {
		o.From = text.Value
		return
	}
	d.object(n, reflect.ValueOf((*outputForm)(o)).Elem(), path)
}

// outputs finds outputs of what is not in the volume, and places that cannot be.
func (jc *jobCheck) outputs() {
	j := jc.job
	for i, o := range j.Outputs {
		at := fmt.Sprintf("outputs[%d]", i)
		if o.From == "" {
			if jc.report.allRead(at) {
				jc.report.at(at, "such as out.txt, or {from: \"*.dat\", to: ./results}", "%s: `from` is needed", at)
			}
			continue
		}
		from := j.inWorkdir(o.From)
		if j.inMount(from) {
			jc.report.at(at+".from", "write to the volume, or leave it where it is", "%s.from: %s lies in a mount, whose files stay on the site", at, from)
			continue
		}
		if path.IsAbs(from) && !j.keeps(from) && jc.report.allRead("volume", "inputs", "workdir") {
			jc.report.at(at+".from", "", "%s.from: %s lies outside the volume %s: only what is written there can be collected; write there, or set `volume:`", at, from, j.Volume.Path)
		}
		if _, err := path.Match(o.From, ""); err != nil {
			jc.report.at(at+".from", "", "%s.from: %q is no valid pattern", at, o.From)
		}
		jc.outputPlace(at+".to", o.To)
		if IsRemote(o.To) && jc.report.allRead(at+".to") {
			if _, hint, err := ParseRemoteDir(o.To); err != nil {
				jc.report.at(at+".to", hint, "%s.to: %v", at, err)
			}
		}
	}
}

// outputPlace finds variables of a `to:` that mean nothing.
func (jc *jobCheck) outputPlace(at, to string) {
	j := jc.job
	name := j.nameOr(jc.report.file)
	if strings.Contains(to, runName) && (name == "." || name == "..") {
		jc.report.at(at, "set another `name:`", "%s: the name %q is no name of a directory", at, name)
	}
	rest := strings.NewReplacer(RunID, "", runName, "").Replace(to)
	if _, unknown, is := strings.Cut(rest, "${run"); is {
		unknown, _, _ = strings.Cut(unknown, "}")
		jc.report.at(at, "${run.id} or ${run.name}", "%s: the variable %q is not known", at, "${run"+unknown+"}")
	}
}

// nameOr returns the job's name, or else that of its file.
func (j *Job) nameOr(file string) string {
	if j.Name != "" {
		return j.Name
	}
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// completeOutputs makes the paths of outputs absolute, as far as they are known.
func (j *Job) completeOutputs() {
	for i := range j.Outputs {
		o := &j.Outputs[i]
		o.From = path.Clean(j.inWorkdir(o.From))
		if o.To = strings.ReplaceAll(o.To, runName, j.Name); !IsRemote(o.To) {
			o.To = j.local(o.To)
		}
	}
}

// OutputsIn makes relative outputs absolute, once the working directory is known, and
// reports whether there were any. Invalid: one of them lies outside the volume.
func (j *Job) OutputsIn(workdir string) (changed bool, err error) {
	r := newReport(j.Name, nil)
	for i := range j.Outputs {
		o := &j.Outputs[i]
		if path.IsAbs(o.From) {
			continue
		}
		o.From, changed = path.Join(workdir, o.From), true
		if !j.keeps(o.From) {
			r.at(fmt.Sprintf("outputs[%d].from", i), "set `workdir: "+j.Volume.Path+"`, or write the whole path", "outputs[%d]: %s, which starts at the image's working directory, lies outside the volume %s", i, o.From, j.Volume.Path)
		}
	}
	return changed, asError(r.problems)
}
