package mpi

import (
	"path"
	"strings"
)

// commandLine is one simple command of the user's, as far as it can be read
// without running it.
type commandLine struct {
	words []string
	// sure tells that the words are what the shell would make of them, and
	// that the command is reached with the image's own environment.
	sure bool
}

// shells may be told a script by -c.
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

// commandsIn splits a script into simple commands. Whatever it does not
// understand makes the commands unsure, never wrong.
func commandsIn(script string) []commandLine {
	var list []commandLine
	sure := !strings.Contains(script, "<<") // what follows may be a document
	for _, raw := range split(script) {
		words, literal := raw.words, raw.literal
		for len(words) > 0 {
			switch words[0] {
			case "if", "then", "else", "elif", "while", "until", "for", "case", "do", "!", "function", "{", "(":
				sure = false
				words = words[1:]
				continue
			}
			break
		}
		words, sets := withoutPrefix(words)
		sure = sure && !sets
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case ".", "source", "eval", "module", "ml", "spack", "conda", "micromamba", "alias", "cd", "pushd", "unset", "export", "trap", "exit", "return":
			// From here on, the environment or the directory may be another.
			// Setting what no search depends on does not matter.
			if words[0] != "export" && words[0] != "trap" || setsSearch(words[1:]) {
				sure = false
			}
			continue
		}
		list = append(list, commandLine{words, sure && literal})
		sure = sure && !raw.conditional
	}
	return list
}

// withoutPrefix drops assignments and the programs that run another in the
// same environment. sets tells that an assignment changes a search.
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
		name, _, _ := strings.Cut(w, "=")
		switch name {
		case "PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "OPAL_PREFIX":
			return true
		}
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

// rawCommand is the words between two separators.
type rawCommand struct {
	words       []string
	literal     bool // no expansion in any word
	conditional bool // what follows depends on how it ends (`&&`, `||`)
}

// split cuts a script at newlines and ; & | outside quotes, and the pieces
// into words. A here-document or a substitution leaves its command unsure.
func split(script string) []rawCommand {
	var (
		list  []rawCommand
		now   = rawCommand{literal: true}
		word  strings.Builder
		open  bool
		quote byte
	)
	endWord := func() {
		if open {
			now.words = append(now.words, word.String())
		}
		word.Reset()
		open = false
	}
	endCommand := func(conditional bool) {
		endWord()
		now.conditional = conditional
		if len(now.words) > 0 {
			list = append(list, now)
		}
		now = rawCommand{literal: true}
	}
	for i := 0; i < len(script); i++ {
		c := script[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '$' && c != '`' && c != '\\':
			word.WriteByte(c)
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, open = c, true
		case c == '\\' && i+1 < len(script):
			i++
			if script[i] != '\n' {
				word.WriteByte(script[i])
				open = true
			}
		case c == '$' || c == '`':
			now.literal, open = false, true
			word.WriteByte(c)
		case quote == 0 && (c == '*' || c == '?' || c == '[' || c == '<' || c == '>' || c == '~'):
			// Globs and redirections: the program's name is seldom in them,
			// and a redirection's file is a word like any other.
			word.WriteByte(c)
			open = true
		case quote == 0 && c == '#' && !open:
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		case quote == 0 && c == '&' && strings.HasSuffix(word.String(), ">"):
			word.WriteByte(c) // 2>&1
		case quote == 0 && (c == '\n' || c == ';' || c == '&' || c == '|'):
			endCommand((c == '|' || c == '&') && i+1 < len(script) && script[i+1] == c)
		case quote == 0 && (c == '(' || c == ')'):
			endCommand(false)
			now.words, open = append(now.words, "("), false
			endCommand(false)
			// A function or a subshell: see "(" in commandsIn.
		case quote == 0 && (c == ' ' || c == '\t'):
			endWord()
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quote != 0 {
		now.literal = false
	}
	endCommand(false)
	return list
}
