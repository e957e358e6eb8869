package spec

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// longestScript bounds what is parsed, as the parser descends with each bracket.
const longestScript = 64 << 10

// valueVariable begins the names of variables by which values reach a shell.
const valueVariable = "BEE_VALUE_"

// variableOf returns the variable that a value of a case reaches a shell by.
func (c Case) variableOf(name string) string {
	i, _ := slices.BinarySearch(slices.Sorted(maps.Keys(c)), name)
	return valueVariable + strconv.Itoa(i+1)
}

// caseScripts are the texts for shells of an array, as they were read for an earlier case.
type caseScripts map[string]*caseScript

// of returns a text.
func (all caseScripts) of(text string) *caseScript {
	if all[text] == nil {
		all[text] = readScript(text)
	}
	return all[text]
}

// caseScript is a text that a shell reads, with the places of values in it. No value becomes
// a part of it but for plain words: others stand for themselves by a quoted variable.
type caseScript struct {
	places     []scriptPlace // in the order of the text
	statements []scriptStatement
}

// scriptPlace is where a value stands.
type scriptPlace struct {
	// before and after quote a variable there. why: none can stand there; "": it can.
	before, after, why string
	statement          int
	// leaders are the places of its word before which that surely has no text.
	leaders []int
}

// scriptStatement is a statement with all that it has within it.
type scriptStatement struct {
	calls [][]string // words, with markers in place of values; unknownWord: it is known to the shell alone
}

const unknownWord = "\x00"

// Reasons for a place of values that are no plain words.
const (
	whyElsewhere = "a shell may compute there"
	whyProgram   = "a program there may read it as commands"
	whyOption    = "it begins a word with `-`, which a program may take for an option"
)

// marker is the variable that stands for the value at a place while a text is read.
func marker(place int) string { return fmt.Sprintf("${bee_mark_%d_}", place) }

// markers matches the texts of markers.
var markers = regexp.MustCompile(`\$\{bee_mark_([0-9]+)_\}`)

// readScript finds where values stand in a text.
func readScript(text string) *caseScript {
	s := &caseScript{}
	marked := caseValue.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		s.places = append(s.places, scriptPlace{why: whyElsewhere})
		return marker(len(s.places) - 1)
	})
	if len(marked) > longestScript || strings.Contains(text, "bee_mark_") {
		return s
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(marked), "")
	if err != nil {
		return s
	}
	for i, statement := range file.Stmts {
		r := scriptReader{script: s, statement: i}
		syntax.Walk(statement, r.visit)
		s.statements = append(s.statements, scriptStatement{r.calls})
	}
	return s
}

// scriptReader reads a statement of a text.
type scriptReader struct {
	script    *caseScript
	statement int
	around    []syntax.Node
	calls     [][]string
}

// visit looks at a node, and at nil when all below one has been visited.
func (r *scriptReader) visit(n syntax.Node) bool {
	if n == nil {
		r.around = r.around[:len(r.around)-1]
		return true
	}
	switch x := n.(type) {
	case *syntax.ParamExp:
		if place := markedBy(x); place >= 0 {
			quote := `"`
			if _, quoted := r.around[len(r.around)-1].(*syntax.DblQuoted); quoted {
				quote = ""
			}
			r.place(place, quote, quote)
		}
	case *syntax.SglQuoted:
		for _, m := range markers.FindAllStringSubmatch(x.Value, -1) {
			if place, err := strconv.Atoi(m[1]); err == nil && place < len(r.script.places) && !x.Dollar {
				r.place(place, `'"`, `"'`)
			}
		}
	case *syntax.CallExpr:
		call := make([]string, len(x.Args))
		for i, word := range x.Args {
			call[i] = textOfWord(word.Parts)
		}
		r.calls = append(r.calls, call)
	}
	r.around = append(r.around, n)
	return true
}

// place notes that a variable may stand for a value, if all around it takes words.
func (r *scriptReader) place(place int, before, after string) {
	if !slices.ContainsFunc(r.around, computes) {
		r.script.places[place] = scriptPlace{before: before, after: after, statement: r.statement, leaders: r.leaders()}
	}
}

// leaders returns the places that may begin the word of a command which is looked at.
func (r *scriptReader) leaders() []int {
	for i, n := range slices.Backward(r.around) {
		word, is := n.(*syntax.Word)
		if !is || i == 0 {
			continue
		}
		switch r.around[i-1].(type) {
		case *syntax.CallExpr, *syntax.WordIter:
			places, _ := leading(word.Parts)
			return places
		}
		return nil
	}
	return nil
}

// leading returns the places in parts of a word before which there surely is no text, and whether
// there may be none after all of them.
func leading(parts []syntax.WordPart) (places []int, empty bool) {
	for _, part := range parts {
		text := ""
		switch x := part.(type) {
		case *syntax.Lit:
			text = strings.ReplaceAll(x.Value, "\\\n", "")
			if strings.Contains(text, "{") && strings.ContainsAny(text[len(text)-1:], "{,") {
				text = "" // what is in braces may begin a word of its own
			}
		case *syntax.SglQuoted:
			text = x.Value
			for m := markers.FindStringSubmatchIndex(text); m != nil && m[0] == 0; m = markers.FindStringSubmatchIndex(text) {
				if place, err := strconv.Atoi(text[m[2]:m[3]]); err == nil {
					places = append(places, place)
				}
				text = text[m[1]:]
			}
		case *syntax.DblQuoted:
			within, empty := leading(x.Parts)
			if places = append(places, within...); !empty {
				return places, false
			}
		case *syntax.ParamExp:
			if place := markedBy(x); place >= 0 {
				places = append(places, place)
			}
		}
		if text != "" {
			return places, false
		}
	}
	return places, true
}

// computes reports whether a shell may do more with words below a node than to split and pass them.
func computes(n syntax.Node) bool {
	switch x := n.(type) {
	case *syntax.Stmt, *syntax.CallExpr, *syntax.Word, *syntax.BinaryCmd, *syntax.Block, *syntax.Subshell, *syntax.IfClause, *syntax.WhileClause,
		*syntax.ForClause, *syntax.WordIter, *syntax.CaseClause, *syntax.CaseItem, *syntax.FuncDecl, *syntax.TimeClause, *syntax.ProcSubst:
		return false
	case *syntax.DblQuoted:
		return x.Dollar
	case *syntax.CmdSubst:
		return x.Backquotes
	case *syntax.Assign:
		return x.Naked || x.Index != nil || x.Array != nil
	case *syntax.DeclClause:
		return x.Variant.Value != "export" && x.Variant.Value != "readonly"
	case *syntax.Redirect:
		return x.Hdoc != nil || x.Op == syntax.Hdoc || x.Op == syntax.DashHdoc
	}
	return true
}

// markedBy returns the place that an expansion stands for; -1: none.
func markedBy(x *syntax.ParamExp) int {
	if x.Param == nil {
		return -1
	}
	m := markers.FindStringSubmatch("${" + x.Param.Value + "}")
	if m == nil {
		return -1
	}
	place, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return place
}

// textOfWord returns what a word stands for, with markers, or unknownWord.
func textOfWord(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, part := range parts {
		text := unknownWord
		switch x := part.(type) {
		case *syntax.Lit:
			text = strings.ReplaceAll(x.Value, `\`, "")
		case *syntax.SglQuoted:
			text = x.Value
		case *syntax.DblQuoted:
			text = textOfWord(x.Parts)
		case *syntax.ParamExp:
			if place := markedBy(x); place >= 0 {
				text = marker(place)
			}
		}
		if strings.Contains(text, unknownWord) {
			return unknownWord
		}
		b.WriteString(text)
	}
	return b.String()
}

// readsCommands are programs that may take any of their words for commands, or that change how
// a shell reads its own.
var readsCommands = []string{"eval", "trap", "alias", "let", "unset", "ssh", "rsh", "remsh", "pdsh", "clush", "su", "watch", "parallel", "script", "flock", "expect", "tmux", "screen", "sed", "awk", "gawk", "mawk", "nawk", "make", "gmake", "ed", "ex", "vi", "vim", "m4", "dc", "bc"}

// interpreters take their first word for a file of commands, if it is no option.
var interpreters = []string{"sh", "bash", "rbash", "dash", "ash", "ksh", "mksh", "pdksh", "yash", "zsh", "fish", "csh", "tcsh", "rc", "busybox", "toybox", "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "lua", "luajit", "php", "tclsh", "wish", "Rscript", "R", "octave", "julia", "guile", "gnuplot", "ipython"}

// evaluating are commands of a shell that evaluate a word: the index in the name of a variable, or
// a command. Elsewhere than at the begin of a call these words mean nothing.
var evaluating = []string{"read", "mapfile", "readarray", "getopts", "wait", "declare", "typeset", "local", "export", "readonly", "compgen", "complete"}

// ofShell returns a call without the words before a command by which a shell runs one of its own.
func ofShell(call []string, fill func(string) string) []string {
	for len(call) > 1 && (fill(call[0]) == "command" || fill(call[0]) == "builtin") {
		call = call[1:]
		for len(call) > 1 && strings.HasPrefix(call[0], "-") {
			call = call[1:]
		}
	}
	return call
}

// commands reports whether a program of the statement may take values for commands.
func (s scriptStatement) commands(fill func(string) string) bool {
	hasValue := func(word string) bool { return word == unknownWord || markers.MatchString(word) }
	for _, call := range s.calls {
		call = ofShell(call, fill)
		if len(call) > 0 && (call[0] == unknownWord || slices.Contains(evaluating, fill(call[0])) && slices.ContainsFunc(call[1:], hasValue)) {
			return true
		}
		for i, word := range call {
			if word == unknownWord {
				continue
			}
			program := path.Base(fill(word))
			if slices.Contains(readsCommands, program) {
				return true
			}
			if !slices.Contains(interpreters, program) && !slices.Contains(interpreters, strings.TrimRight(program, "0123456789.")) {
				continue
			}
			if i+1 == len(call) || strings.HasPrefix(call[i+1], "-") || hasValue(call[i+1]) {
				return true
			}
		}
		if len(call) > 0 && slices.Contains([]string{"printf", "test", "["}, fill(call[0])) && slices.ContainsFunc(call, func(w string) bool { return fill(w) == "-v" }) {
			return true // of a name, whose index bash evaluates
		}
	}
	return false
}

// filled returns the text with the values of a case, the variables that it needs for them, and the
// parameter that cannot stand where it does, with the reason; "": all can.
func (s *caseScript) filled(text string, of Case) (out string, variables map[string]string, wrong, why string) {
	var names []string
	for _, m := range caseValue.FindAllString(text, -1) {
		if !strings.HasPrefix(m, "$$") {
			names = append(names, parameterIn(m))
		}
	}
	values := func(word string) string {
		return markers.ReplaceAllStringFunc(word, func(m string) string {
			place, err := strconv.Atoi(markers.FindStringSubmatch(m)[1])
			if err != nil || place >= len(names) {
				return m
			}
			return of[names[place]]
		})
	}
	variables = map[string]string{}
	place := -1
	out = caseValue.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		place++
		name, at := names[place], s.places[place]
		value := of[name]
		switch {
		case plainWord.MatchString(value):
			return value
		case wrong != "":
		case at.why != "":
			wrong, why = name, at.why
		case slices.ContainsFunc(at.leaders, func(i int) bool { return strings.HasPrefix(of[names[i]], "-") }):
			wrong, why = name, whyOption
		case s.statements[at.statement].commands(values):
			wrong, why = name, whyProgram
		}
		variable := of.variableOf(name)
		variables[variable] = value
		return at.before + "${" + variable + "}" + at.after
	})
	return out, variables, wrong, why
}
