package shell

import "strings"

// Word is s as a person would type it: quoted where a shell would change it.
func Word(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return Quote(s)
}

// Words is a command line as a person would type it: each of its words as Word.
func Words(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = Word(w)
	}
	return strings.Join(words, " ")
}
