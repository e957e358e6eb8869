package spec

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Array is a parameter study: each case is a run of its own, whose Beefile has values in
// place of ${case.NAME}.
type Array struct {
	// Cases are the values of its parameters.
	Cases Cases `yaml:"cases"`
	// Exclude leaves out the cases that have all values of one of its elements.
	Exclude []map[string]string `yaml:"exclude"`
	// AtOnce is how many cases run at the same time, over all sites; 0: all.
	AtOnce int `yaml:"at_once"`
	// Pack is how many cases share one lease; 0: each has its own.
	Pack int `yaml:"pack"`
	// OnFailure is when the cases that have not begun are stopped.
	OnFailure OnFailure `yaml:"on_failure"`
}

// Cases are those of an array, in their order.
type Cases []Case

// Case is one of them: values of parameters by name.
type Case map[string]string

// String returns the values in the order of their names.
func (c Case) String() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		words = append(words, name+"="+c[name])
	}
	return strings.Join(words, " ")
}

// mostCases bounds an array, and mostTogether those cases of it that run at the same time:
// each has a controller then, with connections of its own.
const (
	mostCases    = 100000
	mostTogether = 1000
)

// Together returns how many cases run at the same time; 0: all. Those of packs have no controllers of
// their own: see PacksAtOnce.
func (a *Array) Together() int {
	if a.AtOnce > 0 || a.Pack > 0 || len(a.Cases) <= mostTogether {
		return a.AtOnce
	}
	return mostTogether
}

// caseValue matches ${case.NAME}, and $${case.NAME}, which stands for itself with one dollar.
var caseValue = regexp.MustCompile(`\$?\$\{case\.([^}]*)\}`)

// plainWord matches values that a shell reads as one word, within quotes and without.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,+@%-]+$`)

// parameter matches names of parameters.
var parameter = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

const arrayKey = "array"

// replacedIn are the keys in which values of a case are replaced, and shellKeys those whose
// texts a shell reads.
func replacedIn() []string {
	return []string{"run", "setup", "resume", "post", "env", "inputs", "outputs", "nodes", "ranks_per_node", "cores", "memory", "time", "timeout", "workdir", "labels"}
}

func shellKeys() []string { return []string{"run", "setup", "resume", "post"} }

// namesCase reports whether a value has ${case.NAME} in it, which is refused when the file is read
// again.
func (c Case) namesCase() bool {
	for _, value := range c {
		if strings.Contains(value, "${case.") {
			return true
		}
	}
	return false
}

// countedCases are the cases of an array, which is read twice: first to know its cases, and then
// with the rest of its file.
type countedCases struct {
	// good are those that the first look has found; nil: something is wrong with them.
	good Cases
	// many: with those of the other jobs of the file they are too many.
	many bool
	// made is how many were made at most until something was found to be wrong.
	made int
}

// decode reads the cases, and counts them the first time.
func (c *Cases) decode(d *decoder, n ast.Node, path string) {
	first := d.cases == nil
	if first {
		d.cases = &countedCases{many: d.left != nil && *d.left <= 0}
	}
	of := d.cases
	if !of.many && of.good != nil {
		*c = of.good
		return
	}
	if problems := len(d.report.problems); !of.many {
		c.read(d, n, path)
		if first && len(d.report.problems) == problems && !slices.ContainsFunc(*c, Case.namesCase) {
			of.good = *c
		}
	}
	if first && d.left != nil && !of.many {
		*d.left -= max(of.made, len(*c))
		of.many = *d.left < 0
	}
	if of.many {
		d.report.problem(begins(n), "write some of the jobs in another file", "%sthe arrays of the file have more than %d cases together", prefix(path), mostCases)
		*c = nil
	}
}

// read reads a product of values, or a list of mappings.
func (c *Cases) read(d *decoder, n ast.Node, path string) {
	switch x := n.(type) {
	case *ast.SequenceNode:
		var list []map[string]string
		d.list(x, reflect.ValueOf(&list).Elem(), path)
		for _, m := range list {
			*c = append(*c, m)
		}
	case *ast.MappingNode, *ast.MappingValueNode:
		if !c.ofFile(d, n, path) {
			c.product(d, n, path)
		}
	default:
		d.report.problem(begins(n), "such as {temperature: [300, 310], seed: {from: 1, to: 50}}", "%sa mapping of parameters, or a list of cases, is wanted", prefix(path))
	}
	d.cases.made = max(d.cases.made, len(*c))
	if why, hint := c.wrong(); why != "" {
		d.report.problem(begins(n), hint, "%s%s", prefix(path), why)
		*c = nil
	}
}

// wrong returns what is wrong with the cases together, and what would be right; "": nothing.
func (c *Cases) wrong() (why, hint string) {
	if len(*c) > mostCases {
		return fmt.Sprintf("it has %d cases; at most %d are run", len(*c), mostCases), ""
	}
	seen := map[string]int{}
	for i, one := range *c {
		for name := range one {
			if !parameter.MatchString(name) {
				return fmt.Sprintf("%q is no name of a parameter", name), "letters, digits, - and _"
			}
		}
		text := fmt.Sprintf("%q", map[string]string(one)) // by name, in their order
		if first, twice := seen[text]; twice {
			return fmt.Sprintf("case %d is equal to case %d", i+1, first+1), ""
		}
		seen[text] = i
	}
	return "", ""
}

// product reads parameters with their values. The last one varies fastest.
func (c *Cases) product(d *decoder, n ast.Node, path string) {
	all := Cases{{}}
	for _, f := range d.fields(n, path) {
		name := f.Key.GetToken().Value
		values := valuesOf(d, d.plain(f.Value), join(path, name))
		d.cases.made = max(d.cases.made, len(values), len(all))
		if len(values)*len(all) > mostCases {
			d.report.problem(begins(n), "", "%sit has %d cases or more; at most %d are run", prefix(path), len(values)*len(all), mostCases)
			return
		}
		var more Cases
		for _, one := range all {
			for _, v := range values {
				next := maps.Clone(one)
				next[name] = v
				more = append(more, next)
			}
		}
		all = more
	}
	if len(all) > 0 && len(all[0]) > 0 { // else there is no parameter
		*c = all
	}
}

// span is a range of whole numbers, as a Beefile has it.
type span struct {
	From int `yaml:"from"`
	To   int `yaml:"to"`
	Step int `yaml:"step"`
}

// valuesOf reads a list of values, or a range.
func valuesOf(d *decoder, n ast.Node, path string) []string {
	r := span{Step: 1}
	switch n.(type) {
	case *ast.SequenceNode:
		var values []string
		d.list(n, reflect.ValueOf(&values).Elem(), path)
		return values
	case *ast.MappingNode, *ast.MappingValueNode:
		d.object(n, reflect.ValueOf(&r).Elem(), path)
	case nil: // which is reported
		return nil
	default:
		d.report.problem(begins(n), "such as [300, 310], or {from: 1, to: 50}", "%sa list of values is wanted", prefix(path))
		return nil
	}
	const most = 1 << 50 // of a number: differences of two fit
	if r.Step < 1 || r.To < r.From || r.From < -most || r.To > most || (r.To-r.From)/r.Step >= mostCases {
		d.report.problem(begins(n), "such as {from: 1, to: 50, step: 1}", "%sit is no range of at most %d numbers", prefix(path), mostCases)
		return nil
	}
	var values []string
	for x := r.From; x <= r.To; x += r.Step {
		values = append(values, strconv.Itoa(x))
	}
	return values
}

// kept returns the cases that are not excluded.
func (a *Array) kept() Cases {
	return slices.DeleteFunc(slices.Clone(a.Cases), func(c Case) bool {
		return slices.ContainsFunc(a.Exclude, func(values map[string]string) bool {
			for name, v := range values {
				if own, has := c[name]; !has || own != v {
					return false
				}
			}
			return len(values) > 0
		})
	})
}

// parameterIn returns the parameter of a match of caseValue.
func parameterIn(match string) string {
	return strings.TrimSuffix(strings.TrimLeft(match, "$"), "}")[len("{case."):]
}

// withCase returns a scalar at a path with the values of the case in it. Of one that cannot have
// them, it returns the scalar as it was.
func (d *decoder) withCase(n ast.Node, text, path string) ast.Node {
	top, _, _ := strings.Cut(strings.ReplaceAll(path, "[", "."), ".")
	if !d.canHaveValues(n, text, path, top) {
		return n
	}
	whole := false
	fill := func(part string) string {
		return caseValue.ReplaceAllStringFunc(part, func(m string) string {
			if strings.HasPrefix(m, "$$") {
				return m[1:]
			}
			whole = m == text
			return d.ofCase[parameterIn(m)]
		})
	}
	out := fill(text)
	switch {
	case path == top && slices.Contains(shellKeys(), top):
		script, variables, wrong, why := d.scripts.of(text).filled(text, d.ofCase)
		if wrong != "" {
			d.report.problem(begins(n), "pass it by a variable: `env: {X: \"${case."+wrong+"}\"}`, and \"$X\" here", "%sthe value %q of %q in case %d is not one plain word to a shell: %s", prefix(path), d.ofCase[wrong], wrong, d.caseNumber, why)
			return n
		}
		maps.Copy(d.shellValues, variables)
		out, whole = script, whole && len(variables) == 0
	case slices.Contains(shellKeys(), top):
		for _, name := range parametersIn(text) {
			if value := d.ofCase[name]; !plainWord.MatchString(value) {
				d.report.problem(begins(n), "write the command as one text, or pass it by `env:`", "%sthe value %q of %q in case %d is not one plain word, and a word of a list may be a script of a shell", prefix(path), value, name, d.caseNumber)
				return n
			}
		}
	case slices.Contains(pathKeys(), top):
		if why := (casePath{text, fill, isHere(path)}).wrong(); why != "" {
			at := begins(n)
			if key, is := d.report.places[path]; is {
				at = key
			}
			d.report.problem(at, "write the rest of the path before the value", "%s%s of case %d would make %q of it: %s", prefix(path), d.valuesText(text), d.caseNumber, out, why)
			return n
		}
	}
	return inPlaceOf(n, out, whole)
}

// canHaveValues reports whether the values in the text of a scalar are known, and replaced there.
func (d *decoder) canHaveValues(n ast.Node, text, path, top string) bool {
	for _, name := range parametersIn(text) {
		if _, known := d.ofCase[name]; !known {
			d.report.problem(begins(n), didYouMean(name, slices.Sorted(maps.Keys(d.ofCase))), "%sthe case has no parameter %q", prefix(path), name)
			return false
		}
		if !slices.Contains(replacedIn(), top) {
			d.report.problem(begins(n), "one of "+strings.Join(replacedIn(), ", "), "%svalues of a case are not replaced here", prefix(path))
			return false
		}
	}
	return true
}

// parametersIn returns the parameters in a text, each once.
func parametersIn(text string) []string {
	var names []string
	for _, m := range caseValue.FindAllString(text, -1) {
		if name := parameterIn(m); !strings.HasPrefix(m, "$$") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// valuesText names the values in a text.
func (d *decoder) valuesText(text string) string {
	var words []string
	for _, name := range parametersIn(text) {
		words = append(words, fmt.Sprintf("%s=%q", name, d.ofCase[name]))
	}
	return strings.Join(words, " ")
}

// inCase returns a scalar with the values of the case in it.
func (d *decoder) inCase(n ast.Node, path string) ast.Node {
	text := writtenText(n)
	if d.ofCase == nil || !strings.Contains(text, "${case.") {
		return n
	}
	return d.withCase(n, text, path)
}

// casesOf returns the cases of the array in a file; none: it has none that can be read. What
// is wrong with them is reported when all of the file is read.
func (d *decoder) casesOf(root ast.Node) Cases {
	for _, f := range topFields(root) {
		if f.Key.GetToken().Value != arrayKey {
			continue
		}
		first := newDecoder(d.report.file, nil)
		first.anchors, first.dir, first.left = d.anchors, d.dir, d.left
		var a Array
		first.decode(f.Value, reflect.ValueOf(&a).Elem(), arrayKey)
		d.cases, d.casesFile = first.cases, first.casesFile
		if len(first.report.problems) > 0 {
			return nil
		}
		return a.kept()
	}
	return nil
}

// topFields are the keys of a file that are written there, and not merged.
func topFields(root ast.Node) []*ast.MappingValueNode {
	switch x := root.(type) {
	case *ast.MappingNode:
		return x.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{x}
	}
	return nil
}

// withoutArray returns a file's mapping without the array.
func withoutArray(root ast.Node) ast.Node {
	x, is := root.(*ast.MappingNode)
	if !is {
		return root
	}
	rest := *x
	rest.Values = slices.DeleteFunc(slices.Clone(x.Values), func(f *ast.MappingValueNode) bool { return f.Key.GetToken().Value == arrayKey })
	return &rest
}

// array finds arrays that have no case, or exclude none, and what bee sets itself.
func (jc *jobCheck) array() {
	a := jc.job.Array
	if a == nil {
		return
	}
	if jc.report.allRead(arrayKey) && len(a.kept()) == 0 {
		jc.report.at(arrayKey, "such as `cases: {seed: {from: 1, to: 50}}`", "array: it has no case")
	}
	within(jc.report, "array.at_once", a.AtOnce)
	within(jc.report, "array.pack", a.Pack)
	jc.pack()
	for i, values := range a.Exclude {
		one := Array{Cases: a.Cases, Exclude: []map[string]string{values}}
		if at := fmt.Sprintf("array.exclude[%d]", i); jc.report.allRead(arrayKey) && len(one.kept()) == len(a.Cases) {
			jc.report.at(at, "write values as in `cases:`", "%s: no case has these values", at)
		}
	}
	for key := range jc.job.Env {
		if key == caseVariable || key == caseNameVariable || strings.HasPrefix(key, valueVariable) {
			jc.report.atKey("env."+key, "leave it out", "env.%s: bee sets it for each case", key)
		}
	}
}

// Variables of a case's environment.
const (
	caseVariable     = "BEE_CASE"
	caseNameVariable = "BEE_CASE_NAME"
)

// Cases returns the cases of the Beefile's array; none: it has no array, or one that cannot
// be, which Finish reports.
func (t *Draft) Cases() Cases { return t.cases }

// Case reads the Beefile of a case, by its number from 1: a job without an array.
func (t *Draft) Case(number int) *Draft {
	one := t.decodeCase(number)
	job := one.Job
	job.Name = fmt.Sprintf("%s.%d", job.nameOr(t.report.file), number)
	job.Env[caseVariable], job.Env[caseNameVariable] = strconv.Itoa(number), job.Name
	return one
}
