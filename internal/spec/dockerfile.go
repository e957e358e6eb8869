package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// maxDockerfile bounds what is read of a Dockerfile.
const maxDockerfile = 1 << 20

// transportOf returns the rest of an image's name behind a transport of buildah and podman,
// see containers-transports(5). local is set for images of this machine, path where the rest
// is a path.
func transportOf(image string) (rest string, local, path bool) {
	transport, rest, is := strings.Cut(image, ":")
	if !is {
		return "", false, false
	}
	switch transport {
	case "oci", "oci-archive", "docker-archive", "dir", "sif":
		return rest, true, true
	case "containers-storage", "docker-daemon", "ostree", "tarball", "atomic":
		return rest, true, false
	}
	return "", false, false
}

// dockerfileReaches lists the images outside of dir that a build's Dockerfile names by a
// transport in FROM, COPY --from or RUN --mount.
func (b *Build) dockerfileReaches(dir string) []Reach {
	const key, anything = "build.dockerfile", "may read anything, as it cannot be checked:"
	file := b.DockerfileIn(b.Context)
	real := realPath(file)
	if strings.HasSuffix(file, ".in") || strings.HasSuffix(real, ".in") { // buildah-build(1): cpp reads it, and includes any file
		return []Reach{{key, anything, file}}
	}
	raw, err := fsutil.ReadFile(filepath.Dir(real), filepath.Base(real), maxDockerfile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the build reports it
	}
	if err != nil {
		return []Reach{{key, anything, fmt.Sprintf("%s (%v)", file, err)}}
	}
	var list []Reach
	for _, s := range sources(string(raw), b.Args) {
		switch {
		case !s.known:
			list = append(list, Reach{key, fmt.Sprintf("may read, by a variable, in line %d", s.line), s.image})
		case b.namesOutside(dir, s.image):
			list = append(list, Reach{key, fmt.Sprintf("reads in line %d", s.line), s.image})
		}
	}
	return list
}

// namesOutside reports whether an image is on this machine and outside of dir.
func (b *Build) namesOutside(dir, image string) bool {
	rest, local, path := transportOf(image)
	if !local || !path {
		return local
	}
	if !filepath.IsAbs(rest) { // builders work in the context
		rest = filepath.Join(b.Context, rest)
	}
	at, _ := SplitPath(rest)
	return Leaves(dir, at)
}

// fromImage is an image named in a line of a Dockerfile. known is false where its name
// depends on a variable without a known value.
type fromImage struct {
	line  int
	image string
	known bool
}

// sources returns the images named in a Dockerfile. Builders differ in continued lines,
// here-documents and quotes, so the images of every reading are returned.
func sources(text string, args map[string]string) (list []fromImage) {
	for _, escape := range []string{"", `\`, "`"} {
		for _, trim := range []bool{false, true} {
			for _, s := range sourcesOf(joinedLines(text, escape, trim), args) {
				if !slices.Contains(list, s) {
					list = append(list, s)
				}
			}
		}
	}
	return list
}

func sourcesOf(lines []joinedLine, args map[string]string) (list []fromImage) {
	global, all := map[string]string{}, map[string]string{} // ARGs before the first FROM, and all so far
	begun := false
	for _, l := range lines {
		words := l.words
		for len(words) > 1 && strings.EqualFold(words[0], "ONBUILD") {
			words = words[1:]
		}
		add := func(word string, values map[string]string) {
			image, known := expanded(word, values)
			list = append(list, fromImage{l.line, image, known})
		}
		switch strings.ToUpper(words[0]) {
		case "ARG":
			setArgs(all, words[1:], args)
			if !begun {
				setArgs(global, words[1:], args)
			}
		case "FROM":
			begun = true
			at := slices.IndexFunc(words[1:], func(w string) bool { return !strings.HasPrefix(w, "--") })
			if at >= 0 {
				add(words[1+at], global)
				add(words[1+at], all)
			}
		}
		for _, from := range fromFlags(words[1:]) {
			add(from, nil)
		}
	}
	return list
}

// setArgs sets the values of an ARG instruction. Those of the Beefile come first; a value
// that depends on an unknown one is "$", so that no name with it is known.
func setArgs(values map[string]string, words []string, args map[string]string) {
	for _, w := range words {
		name, value, is := strings.Cut(w, "=")
		if given, named := args[name]; named {
			value, is = given, true
		}
		if _, set := values[name]; set && !is {
			continue // a stage asks for the value from before
		}
		value, known := expanded(value, values)
		if !known {
			value = "$"
		}
		values[name] = value
	}
}

// fromFlags returns the images in the flags of COPY and RUN.
func fromFlags(words []string) (list []string) {
	for _, w := range words {
		if !strings.HasPrefix(w, "--") {
			break
		}
		switch flag, value, _ := strings.Cut(w, "="); flag {
		case "--from":
			list = append(list, value)
		case "--mount":
			for part := range strings.SplitSeq(value, ",") {
				if from, is := strings.CutPrefix(part, "from="); is {
					list = append(list, from)
				}
			}
		}
	}
	return list
}

// variable matches a variable of a Dockerfile without a rule for its value.
var variable = regexp.MustCompile(`\$(\w+|\{\w+\})`)

// expanded replaces variables by their values, which are empty where there is none, as in
// builders. known is false for rules such as ${A:-b}, and without values for any variable:
// an image may set it.
func expanded(word string, values map[string]string) (image string, known bool) {
	image = word
	if values != nil {
		image = variable.ReplaceAllStringFunc(word, func(v string) string { return values[strings.Trim(v, "${}")] })
	}
	return image, !strings.Contains(image, "$")
}

// joinedLine is an instruction of a Dockerfile, with the number of its first line.
type joinedLine struct {
	line  int
	words []string
}

// joinedLines joins each line that ends with escape and the next, and removes quotes. trim
// also removes the space around lines.
func joinedLines(text, escape string, trim bool) (list []joinedLine) {
	plain := strings.NewReplacer(`"`, "", `'`, "", `\`, "", "`", "")
	begun, joined := 0, ""
	end := func() {
		if words := strings.Fields(plain.Replace(joined)); len(words) > 0 {
			list = append(list, joinedLine{begun, words})
		}
		begun, joined = 0, ""
	}
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.TrimRight(line, " \t\r")
		bare := strings.TrimSpace(line)
		if strings.HasPrefix(bare, "#") || bare == "" && begun > 0 {
			continue
		}
		if begun == 0 {
			begun = i + 1
		}
		if trim {
			line = bare
		}
		more := false
		if escape != "" {
			line, more = strings.CutSuffix(line, escape)
		}
		joined += line
		if !more {
			end()
		}
	}
	end()
	return list
}
