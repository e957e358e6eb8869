package prefix

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Directories in what a process sends to another host, where image, volume and prefix are elsewhere.
const (
	sentImage  = "/.bee/image" // before the path of a file in a container, in scripts and among other text
	sentPrefix = "/.bee/prefix"
)

// Portable translates what a process of a prefix sends to another host by the launch agent: its environment, its
// working directory and a script have no path of this host then. Command translates them to those of the other host.
// What a process sends that no prefix has started stays as it is.
func Portable(environ []string, dir, script string) (sentEnviron []string, sentDir, sentScript string) {
	var m Mark
	if err := json.Unmarshal([]byte(valueOf(environ, Variable)), &m); err != nil {
		return environ, dir, script
	}
	at := m.places()
	for _, e := range environ {
		key, value, _ := strings.Cut(e, "=")
		if key != Variable { // the other host has a mark of its own
			sentEnviron = append(sentEnviron, key+"="+portableValue(value, at))
		}
	}
	return sentEnviron, portable(dir, at, ""), portable(script, at, sentImage)
}

// portableValue marks the paths of a value, unless it is a list of them, of which the other host translates each.
func portableValue(value string, at []place) string {
	marked := portable(value, at, sentImage)
	for _, part := range strings.Split(marked, ":") {
		if strings.LastIndex(part, sentImage+"/") > 0 {
			return marked
		}
	}
	return portable(value, at, "")
}

// places are the directories of a mark, that with the longest path on the host first.
func (m Mark) places() []place {
	all := []place{{sentPrefix, m.Prefix}, {"", strings.TrimSuffix(m.Tree, "/")}}
	for inside, host := range m.Places {
		all = append(all, place{strings.TrimSuffix(inside, "/"), strings.TrimSuffix(host, "/")})
	}
	all = slices.DeleteFunc(all, func(p place) bool { return p.host == "" })
	slices.SortFunc(all, func(a, b place) int { return len(b.host) - len(a.host) })
	return all
}

// portable has the paths of a text in a container in place of those on the host, with a directory before each.
func portable(text string, at []place, before string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		n := 1
		if text[i] == '/' && (i == 0 || !inPath(text[i-1])) {
			for _, p := range at {
				if rest, is := strings.CutPrefix(text[i:], p.host); is && p.ends(rest) {
					out.WriteString(before + p.inside)
					n = len(p.host)
					break
				}
			}
		}
		if n == 1 {
			out.WriteByte(text[i])
		}
		i += n
	}
	return out.String()
}

// ends reports whether a path that begins as the place ends with it, or continues below it. The image itself has no name.
func (p place) ends(rest string) bool {
	if strings.HasPrefix(rest, "/") {
		return true
	}
	return p.inside != "" && (rest == "" || !inPath(rest[0]))
}

// inPath reports whether a byte is one of a path without blanks.
func inPath(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("_.+@%~/-", b) >= 0
}

// sent finds the paths that Portable has put into a script, or among other text.
var sent = regexp.MustCompile(regexp.QuoteMeta(sentImage) + `(/[A-Za-z0-9_.+@%~/-]*)`) // a table

// script is a script as the host has it. One that names a place or a file of the image is refused, unless Portable has
// put it there: the script is that of a launch agent then, and no user's.
func (p *Prefix) script(text string) (string, error) {
	if named := p.names(sent.ReplaceAllString(text, " ")); named != "" {
		return "", &PathError{named}
	}
	return p.received(text), nil
}

// received has paths of this host where Portable has marked some.
func (p *Prefix) received(text string) string {
	return sent.ReplaceAllStringFunc(text, func(s string) string { return p.value(strings.TrimPrefix(s, sentImage)) })
}
