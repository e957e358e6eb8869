package spec

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// pathKeys are those of replacedIn whose texts are paths.
func pathKeys() []string { return []string{"inputs", "outputs", "workdir"} }

// casePath is a text of a path with values of a case in it, before and after these are there.
type casePath struct {
	text string
	// fill returns a part of the text with the values in it.
	fill func(part string) string
	// here: it is a path of the submitting machine, where a hidden name counts as outside.
	here bool
}

// isHere reports whether the text at a path of a Beefile names files of the submitting machine.
func isHere(path string) bool {
	list, _, _ := strings.Cut(path, "[")
	return list == "outputs" && strings.HasSuffix(path, "].to") || list == "inputs" && (strings.HasSuffix(path, "].from") || strings.HasSuffix(path, "]"))
}

// wrong returns how values make a path lead elsewhere than its text; "": they do not.
// Steps that values add are below those that the text has before them.
func (p casePath) wrong() string {
	filled := p.fill(p.text)
	switch {
	case IsRemote(filled) != IsRemote(p.text):
		return "the scheme is no longer that of the text"
	case strings.HasPrefix(filled, "/") && !strings.HasPrefix(p.text, "/"):
		return "the text is no absolute path"
	case isOfHome(filled) && !isOfHome(p.text):
		return "the text does not begin in the home directory"
	}
	elements := strings.Split(p.text, "/")
	for i, element := range elements {
		own := p.fill(element)
		if own == element {
			continue
		}
		if IsRemote(p.text) {
			signs, most := querySigns, "a value has no "+querySigns
			if i < remotePrefix {
				signs, most = querySigns+hostSigns, "a host or bucket has letters, digits and `-_.`"
			}
			if countOf(own, signs) != countOf(caseValue.ReplaceAllString(element, ""), signs) {
				return most
			}
			if plain, err := url.PathUnescape(own); err == nil {
				own = plain
			}
		}
		named := false
		for k, step := range strings.Split(own, "/") {
			named = named || step != "" && step != "."
			if p.here {
				step = strings.TrimLeft(step, `\`) // in a pattern, which then means the sign after it
			}
			switch {
			case step == "..":
				return "a value adds no step `..`"
			case p.here && strings.HasPrefix(step, ".") && step != "." && (k > 0 || !strings.HasPrefix(element, ".")):
				return fmt.Sprintf("a value makes no hidden name, such as %q", step)
			}
		}
		if !named && slices.Contains(elements[i+1:], "..") {
			return "a value before a step `..` has a name"
		}
	}
	return ""
}

// remotePrefix is how many elements of a remote place its scheme and host, or bucket, are.
const remotePrefix = 3

// Signs that separate the parts of a remote place: of its query, by which another endpoint may be
// meant, and of its host.
const (
	querySigns = "?#&"
	hostSigns  = "/\\@:%[] "
)

// countOf counts signs in a text.
func countOf(text, signs string) (n int) {
	for _, r := range text {
		if strings.ContainsRune(signs, r) {
			n++
		}
	}
	return n
}

// isOfHome reports whether a path begins in the user's home directory.
func isOfHome(path string) bool { return path == "~" || strings.HasPrefix(path, "~/") }
