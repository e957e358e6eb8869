package spec

import (
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// OnFailure is when the cases of an array are stopped that have not begun.
type OnFailure struct {
	// At is a number of failed cases, such as 10, or a share of all, such as 5%; "": never.
	At string `yaml:"at" json:"at,omitempty"`
}

// Words of on_failure.
const (
	onFailureContinue = "continue"
	onFailureStop     = "stop"
)

// onFailureForm is OnFailure without its own decode, so that object can fill it.
type onFailureForm OnFailure

// Limit returns with how many failed cases an array of so many stops; 0: never.
func (f OnFailure) Limit(cases int) int {
	share, isShare := strings.CutSuffix(f.At, "%")
	if !isShare {
		count, err := strconv.Atoi(f.At)
		if err != nil || count < 1 {
			return 0
		}
		return count
	}
	percent, err := strconv.ParseFloat(share, 64)
	if err != nil || !(percent > 0 && percent <= 100) {
		return 0
	}
	return max(1, int(math.Ceil(percent*float64(cases)/100)))
}

// decode reads a word, or a mapping.
func (f *OnFailure) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		problems := len(d.report.problems)
		if d.object(n, reflect.ValueOf((*onFailureForm)(f)).Elem(), path); len(d.report.problems) == problems && f.Limit(1) == 0 {
			d.report.problem(begins(n), "such as {at: 5%}, or {at: 10} for a number of cases", "%s%q is no share of the cases, and no number of them", prefix(join(path, "at")), f.At)
		}
	default:
		switch word, is := d.text(n, path); {
		case !is || word == onFailureContinue:
		case word == onFailureStop:
			f.At = "1"
		default:
			d.report.problem(begins(n), "continue, stop, or such as {at: 5%}", "%s%q is not known", prefix(path), word)
		}
	}
}
