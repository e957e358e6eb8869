package mpi

import (
	"slices"
	"strings"
)

// Programs are names that a command looks up in its PATH for certain: of the programs that are
// reached whatever happens, of launchers, and of what these start. Words of the shell are none.
func Programs(argv []string) (names []string) {
	add := func(words []string) {
		if len(words) > 0 && !strings.ContainsAny(words[0], "/$`*?[") && !isBuiltin(words[0]) && !slices.Contains(names, words[0]) {
			names = append(names, words[0])
		}
	}
	add(argv) // such as the shell itself
	for _, c := range commandsOf(argv) {
		launches := len(c.words) > 0 && isLauncher(c.words[0])
		if !c.sure && !launches {
			continue
		}
		add(c.words)
		if program, known := launched(c.words); launches && known && c.sure {
			add(program)
		}
	}
	return names
}

// isBuiltin reports whether shells have a command of a name themselves.
func isBuiltin(name string) bool {
	return slices.Contains([]string{
		":", ".", "alias", "bg", "break", "builtin", "cd", "command", "continue", "declare", "eval", "exec", "exit", "export", "fc", "fg", "getopts", "hash", "jobs",
		"let", "local", "mapfile", "read", "readonly", "return", "set", "shift", "shopt", "source", "times", "trap", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
	}, name)
}
