package image

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/image/source"
)

// bases gives the images of registries that the last stage of a Dockerfile comes from, as
// they are named there, and the one that its syntax names. Those that it has by digest,
// for another platform, or by a variable that nobody sets are left to the builder.
func bases(text, platform string, args map[string]string) []string {
	system, arch, _ := strings.Cut(platform, "/")
	d := &dockerfile{platform: platform, args: args, values: map[string]string{
		"BUILDPLATFORM": platform, "BUILDOS": system, "BUILDARCH": arch,
		"TARGETPLATFORM": platform, "TARGETOS": system, "TARGETARCH": arch,
	}}
	text = strings.TrimPrefix(text, "\ufeff")
	syntax, escape := directives(text)
	for _, words := range instructions(text, escape) {
		d.instruction(words)
	}
	all := []string{syntax}
	if len(d.stages) > 0 {
		wanted := make(map[int]bool)
		d.want(len(d.stages)-1, wanted)
		for _, n := range slices.Sorted(maps.Keys(wanted)) {
			all = append(all, d.stages[n].images...)
		}
	}
	var found []string
	for _, ref := range all {
		if _, err := source.ParseRef(ref, false); err == nil && !strings.Contains(ref, "@") && !slices.Contains(found, ref) {
			found = append(found, ref)
		}
	}
	return found
}

// dockerfile is what is known of one while it is read.
type dockerfile struct {
	platform     string
	args, values map[string]string // those given, and those that count before the first stage
	stages       []stage
}

// stage is one of a Dockerfile, with what it takes files from.
type stage struct {
	name   string
	images []string
	stages []int // by number
}

// want marks a stage with all that it comes from.
func (d *dockerfile) want(n int, wanted map[int]bool) {
	if wanted[n] {
		return
	}
	wanted[n] = true
	for _, from := range d.stages[n].stages {
		d.want(from, wanted)
	}
}

func (d *dockerfile) instruction(words []string) {
	word, words := strings.ToUpper(words[0]), words[1:]
	switch {
	case word == "ARG" && len(d.stages) == 0:
		for _, w := range words {
			key, value, set := strings.Cut(w, "=")
			if given, ok := d.args[key]; ok {
				d.values[key] = given
			} else if value, known := d.expand(strings.Trim(value, `"'`)); set && known {
				d.values[key] = value
			}
		}
	case word == "FROM":
		platform := d.platform
		for len(words) > 0 && strings.HasPrefix(words[0], "--") {
			if value, ok := strings.CutPrefix(words[0], "--platform="); ok {
				platform, _ = d.expand(value)
			}
			words = words[1:]
		}
		s := stage{}
		if len(words) > 0 {
			if base, known := d.expand(strings.Trim(words[0], `"'`)); known && platform == d.platform {
				d.from(&s, base)
			} else if known {
				d.fromStage(&s, base)
			}
		}
		if len(words) == 3 && strings.EqualFold(words[1], "AS") {
			s.name = words[2]
		}
		d.stages = append(d.stages, s)
	case len(d.stages) > 0:
		for _, w := range words {
			if !strings.HasPrefix(w, "--") {
				break
			}
			flag, value, _ := strings.Cut(w, "=")
			for _, part := range strings.Split(value, ",") {
				if from, ok := strings.CutPrefix(part, "from="); ok && flag == "--mount" {
					d.from(&d.stages[len(d.stages)-1], from)
				}
			}
			if flag == "--from" {
				d.from(&d.stages[len(d.stages)-1], value)
			}
		}
	}
}

// from has a stage take from another one, or from an image.
func (d *dockerfile) from(s *stage, what string) {
	if !d.fromStage(s, what) && what != "scratch" {
		s.images = append(s.images, what)
	}
}

func (d *dockerfile) fromStage(s *stage, what string) bool {
	n := slices.IndexFunc(d.stages, func(o stage) bool { return o.name != "" && strings.EqualFold(o.name, what) })
	if number, err := strconv.Atoi(what); n < 0 && err == nil && number >= 0 && number < len(d.stages) {
		n = number
	}
	if n >= 0 {
		s.stages = append(s.stages, n)
	}
	return n >= 0
}

// expand puts in the values of variables; known is false where there is none.
func (d *dockerfile) expand(text string) (expanded string, known bool) {
	known = true
	expanded = os.Expand(text, func(name string) string {
		if name, instead, ok := strings.Cut(name, ":-"); ok {
			if v := d.values[name]; v != "" {
				return v
			}
			return instead
		}
		if name, instead, ok := strings.Cut(name, ":+"); ok {
			if d.values[name] == "" {
				return ""
			}
			return instead
		}
		v, ok := d.values[name]
		known = known && ok
		return v
	})
	return expanded, known
}

// directives gives the image that knows a Dockerfile's syntax, if it names one, and what
// has a line continue in the next.
func directives(text string) (syntax, escape string) {
	escape = `\`
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(strings.TrimSpace(line), "#")
		key, value, set := strings.Cut(comment, "=")
		if key, value = strings.TrimSpace(key), strings.TrimSpace(value); !ok || !set || strings.ContainsAny(key, " \t") {
			break
		}
		switch strings.ToLower(key) {
		case "syntax":
			syntax, _, _ = strings.Cut(value, " ")
		case "escape":
			escape = value
		}
	}
	return syntax, escape
}

// instructions gives the words of each, without those of its here-documents.
func instructions(text, escape string) [][]string {
	var all [][]string
	lines := strings.Split(text, "\n")
	for n := 0; n < len(lines); n++ {
		var words []string
		for ; n < len(lines); n++ {
			line := strings.TrimSpace(lines[n])
			if strings.HasPrefix(line, "#") || line == "" && len(words) > 0 { // also in the middle of one
				continue
			}
			line, more := strings.CutSuffix(line, escape)
			words = append(words, strings.Fields(line)...)
			if !more {
				break
			}
		}
		if len(words) == 0 {
			continue
		}
		all = append(all, words)
		switch strings.ToUpper(words[0]) {
		case "RUN", "COPY", "ADD":
			n += hereDocuments(words, lines[min(n+1, len(lines)):])
		}
	}
	return all
}

// hereDocuments gives how many lines those that an instruction begins have.
func hereDocuments(words, lines []string) int {
	taken := 0
	for _, w := range words {
		name, ok := strings.CutPrefix(strings.TrimLeft(w, "0123456789"), "<<")
		name, indented := strings.CutPrefix(name, "-")
		name = strings.Trim(name, `"'`)
		if !ok || name == "" || strings.Contains(name, "<") {
			continue
		}
		end := slices.IndexFunc(lines[taken:], func(l string) bool {
			l = strings.TrimSuffix(l, "\r")
			if indented {
				l = strings.TrimLeft(l, "\t")
			}
			return l == name
		})
		taken += end + 1 // none of it where it has no end
	}
	return taken
}
