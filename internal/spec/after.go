package spec

import (
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// After is a run that has to end before the job begins.
type After struct {
	// Run is an id, its first letters, or a name.
	Run string `yaml:"run"`
	// On is how it has to end: one of the After… words; "": AfterSuccess.
	On string `yaml:"on" json:",omitempty"`

	// input is the number, from 1, of the input that implies the element; 0: the file has it.
	input int
}

// Words of After.On.
const (
	AfterSuccess = "success"
	AfterFailure = "failure"
	AfterEnd     = "end"
)

func afterWords() []string { return []string{AfterSuccess, AfterFailure, AfterEnd} }

// afterForm is After without its own decode, so that object can fill it.
type afterForm After

// decode reads a run, or a mapping.
func (a *After) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.object(n, reflect.ValueOf((*afterForm)(a)).Elem(), path)
	default:
		a.Run, _ = d.text(n, path)
	}
}

// ParseAfter reads RUN or RUN:WORD, as a flag has it.
func ParseAfter(text string) After {
	run, on, _ := strings.Cut(text, ":")
	return After{Run: run, On: on}
}

// mostAfter bounds the runs that one job waits for.
const mostAfter = 1000

// after finds dependencies that cannot be.
func (jc *jobCheck) after() {
	if len(jc.job.After) > mostAfter {
		jc.report.at("after", "", "after: it names %d runs; at most %d are waited for", len(jc.job.After), mostAfter)
	}
	for i, a := range jc.job.After {
		at := a.path(i)
		if a.input == 0 && strings.TrimSpace(a.Run) == "" && jc.report.allRead(at) {
			jc.report.at(at, "such as prep, or {run: prep, on: end}", "%s: it names no run", at)
		}
		if choice := afterWords(); a.On != "" && !slices.Contains(choice, a.On) {
			jc.report.at(at+".on", didYouMean(a.On, choice), "%s.on: %q is not known", at, a.On)
		}
	}
}
