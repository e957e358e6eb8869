package mpi

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// commandLine is one simple command of the user's, as far as it can be read
// without running it.
type commandLine struct {
	words []string
	// sure means that the words are what the shell would make of them, and
	// that the command is reached with the image's own environment.
	sure bool
}

// isShell reports whether a program may be given a script by -c.
func isShell(name string) bool {
	switch path.Base(name) {
	case "sh", "bash", "dash", "ash", "zsh", "ksh":
		return true
	}
	return false
}

// commandsOf takes an argument vector apart: `sh -c SCRIPT` into the script's
// commands, anything else is a command by itself.
func commandsOf(argv []string) []commandLine {
	for n, word := range argv {
		if !isShell(word) {
			continue
		}
		for k := n + 1; k+1 < len(argv); k++ {
			flag := argv[k]
			if !strings.HasPrefix(flag, "-") {
				break
			}
			if !strings.HasSuffix(flag, "c") || strings.HasPrefix(flag, "--") {
				continue
			}
			list := commandsIn(argv[k+1])
			// An entrypoint before the shell, and a login shell, may change
			// the environment.
			sure := n == 0 && !strings.Contains(flag, "l")
			for c := range list {
				list[c].sure = list[c].sure && sure
			}
			return list
		}
	}
	if len(argv) == 0 {
		return nil
	}
	return []commandLine{{words: argv, sure: true}}
}

// longestScript bounds what is parsed, as the parser descends with each bracket.
const longestScript = 64 << 10

// commandsIn gives the simple commands of a script, in their order. What the parser does
// not understand has none.
func commandsIn(script string) []commandLine {
	if len(script) > longestScript {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil
	}
	r := reader{sure: true}
	for _, s := range file.Stmts {
		r.statement(s)
	}
	return r.list
}

// reader collects the simple commands of a script.
type reader struct {
	list []commandLine
	// sure is false once the environment, the directory or the course of the script may
	// be another.
	sure bool
}

func (r *reader) statement(s *syntax.Stmt) {
	if s.Negated {
		r.sure = false
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		r.call(c)
	case *syntax.DeclClause:
		for _, a := range c.Args {
			if a.Name == nil || isSearch(a.Name.Value) {
				r.sure = false
			}
		}
	case *syntax.TimeClause:
		if c.Stmt != nil {
			r.statement(c.Stmt)
		}
	case *syntax.BinaryCmd:
		r.statement(c.X)
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			r.sure = false
		}
		r.statement(c.Y)
	case nil:
	default: // a loop, a condition, a function
		r.sure = false
		r.within(c)
	}
	for _, redirection := range s.Redirs {
		r.within(redirection)
	}
}

// within collects the commands below a node, of which nothing is sure.
func (r *reader) within(n syntax.Node) {
	sure := r.sure
	r.sure = false
	syntax.Walk(n, func(n syntax.Node) bool {
		s, is := n.(*syntax.Stmt)
		if is {
			r.statement(s)
		}
		return !is
	})
	r.sure = sure
}

// call adds a simple command.
func (r *reader) call(c *syntax.CallExpr) {
	sets := false
	for _, a := range c.Assigns {
		sets = sets || a.Name == nil || isSearch(a.Name.Value)
		r.within(a)
	}
	if len(c.Args) == 0 {
		r.sure = r.sure && !sets
		return
	}
	words, literal := make([]string, len(c.Args)), true
	for k, arg := range c.Args {
		text, plain := wordText(arg)
		words[k], literal = text, literal && plain
		r.within(arg)
	}
	words, more := withoutPrefix(words)
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case ".", "source", "eval", "module", "ml", "spack", "conda", "micromamba", "alias", "cd", "pushd", "unset", "exit", "return":
		r.sure = false
	case "trap":
	default:
		r.list = append(r.list, commandLine{words, r.sure && literal && !sets && !more})
	}
}

// wordText gives a word without its quotes, and whether it has no expansion. An expansion
// stays as it is written.
func wordText(w *syntax.Word) (text string, literal bool) {
	var b strings.Builder
	literal = true
	var add func(parts []syntax.WordPart, quoted bool)
	add = func(parts []syntax.WordPart, quoted bool) {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(unescape(p.Value, quoted))
			case *syntax.SglQuoted:
				literal = literal && !p.Dollar
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				literal = literal && !p.Dollar
				add(p.Parts, true)
			default:
				literal = false
				if err := syntax.NewPrinter().Print(&b, p); err != nil {
					b.WriteByte('$')
				}
			}
		}
	}
	add(w.Parts, false)
	return b.String(), literal
}

// unescape drops the backslashes of a literal. Within double quotes they count before
// `$`, a backquote, `"`, a backslash and the end of a line only.
func unescape(s string, quoted bool) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (!quoted || strings.IndexByte("$`\"\\\n", s[i+1]) >= 0) {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// withoutPrefix drops assignments and the programs that run another in the
// same environment. sets means that an assignment changes a search.
func withoutPrefix(words []string) (rest []string, sets bool) {
	for len(words) > 0 {
		name, _, assigns := strings.Cut(words[0], "=")
		switch {
		case assigns && isName(name):
			sets = sets || setsSearch(words[:1])
			words = words[1:]
		case words[0] == "exec" || words[0] == "time" || words[0] == "nohup" || words[0] == "command" && len(words) > 1 && !strings.HasPrefix(words[1], "-"):
			words = words[1:]
		case words[0] == "env" && len(words) > 1 && strings.Contains(words[1], "="):
			words = words[1:]
		case words[0] == "timeout" && len(words) > 2 && !strings.HasPrefix(words[1], "-"):
			words = words[2:]
		default:
			return words, sets
		}
	}
	return nil, sets
}

func setsSearch(words []string) bool {
	for _, w := range words {
		if name, _, _ := strings.Cut(w, "="); isSearch(name) {
			return true
		}
	}
	return false
}

// isSearch reports whether a variable decides which programs and libraries are found.
func isSearch(name string) bool {
	switch name {
	case "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "OPAL_PREFIX":
		return true
	}
	return false
}

func isName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
