package scaffold

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/spec"
)

var exports = regexp.MustCompile(`^\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$`)

// definition converts a definition file of Apptainer: into a Dockerfile, with the commands of
// %post as a script beside it.
func definition(d *draft, file string, data []byte, _ func(string) bool) error {
	name := nameOf(file)
	if !plainName.MatchString(name) {
		name = "image"
	}
	d.job.Name = name
	header, sections := map[string]string{}, map[string][]string{}
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if rest, is := strings.CutPrefix(line, "%"); is {
			section, _, _ = strings.Cut(rest, " ")
			section = strings.TrimSpace(section)
			if _, twice := sections[section]; twice {
				return fmt.Errorf("%%%s is there twice: only a single stage can be converted", section)
			}
			sections[section] = []string{}
			continue
		}
		if section != "" {
			sections[section] = append(sections[section], line)
			continue
		}
		if key, value, is := strings.Cut(line, ":"); is && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			if _, twice := header[strings.ToLower(strings.TrimSpace(key))]; twice {
				return fmt.Errorf("%q is there twice: only a single stage can be converted", strings.TrimSpace(key))
			}
			header[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSpace(value)
		}
	}
	from, err := baseOf(header)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Made from %s by bee init.\nFROM %s\n", path.Base(file), from)
	d.files = map[string]string{}
	for _, line := range sections["files"] {
		d.copyFile(&b, line)
	}
	if post := sectionText(sections["post"]); strings.TrimSpace(post) != "" {
		script := name + ".post.sh"
		d.files[script] = "#!/bin/sh\nset -e\n" + post
		fmt.Fprintf(&b, "COPY %s /tmp/post.sh\nRUN sh /tmp/post.sh\n", script)
	}
	for _, line := range sections["environment"] {
		d.variable(&b, line)
	}
	for _, line := range sections["labels"] {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key != "" && !strings.HasPrefix(key, "#") {
			fmt.Fprintf(&b, "LABEL %s=%s\n", key, strconv.Quote(strings.TrimSpace(value)))
		}
	}
	d.files[name+".Dockerfile"] = b.String()
	d.job.Build = &spec.Build{Context: ".", Dockerfile: name + ".Dockerfile"}
	if run := sectionText(sections["runscript"]); strings.TrimSpace(run) != "" {
		d.job.Run = &spec.Command{Shell: strings.TrimSpace(run) + "\n"}
		if strings.Contains(run, "$@") || strings.Contains(run, "$*") {
			d.note("%%runscript: $@ is empty here; write the arguments into `run:`")
		}
	}
	for _, known := range []string{"", "files", "post", "environment", "labels", "runscript", "help", "test"} {
		delete(sections, known)
	}
	for s := range sections {
		d.note("%%%s: it is left out", s)
	}
	return nil
}

// baseOf is the image from which a definition starts.
func baseOf(header map[string]string) (string, error) {
	switch agent := strings.ToLower(header["bootstrap"]); agent {
	case "docker":
		if header["from"] == "" {
			return "", errNoImage
		}
		return strings.TrimPrefix(header["from"], "docker://"), nil
	case "debootstrap":
		suite := header["osversion"]
		if !plainName.MatchString(suite) {
			return "", fmt.Errorf("OSVersion %q is no suite of Debian", suite)
		}
		return "docker.io/library/debian:" + suite, nil
	default:
		return "", fmt.Errorf("it starts from %q, and only docker and debootstrap can be converted: name the image that it is made of", agent)
	}
}

// sectionText is a section without the indentation that its lines share.
func sectionText(lines []string) string {
	indent := -1
	for _, line := range lines {
		if trimmed := strings.TrimLeft(line, " \t"); trimmed != "" && (indent < 0 || len(line)-len(trimmed) < indent) {
			indent = len(line) - len(trimmed)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line[min(max(indent, 0), len(line)):] + "\n")
	}
	return strings.Trim(b.String(), "\n") + "\n"
}

// copyFile converts a line of %files.
func (d *draft) copyFile(b *strings.Builder, line string) {
	words := strings.Fields(line)
	switch {
	case len(words) == 0 || strings.HasPrefix(words[0], "#"):
	case strings.HasPrefix(words[0], "/"):
		d.note("%%files %s: a Dockerfile copies only from its own directory: copy it there first", short(line))
	case len(words) == 1:
		fmt.Fprintf(b, "COPY %s /%s\n", words[0], path.Base(words[0]))
	default:
		fmt.Fprintf(b, "COPY %s %s\n", words[0], words[1])
	}
}

// variable converts a line of %environment.
func (d *draft) variable(b *strings.Builder, line string) {
	text := strings.TrimSpace(line)
	if text == "" || strings.HasPrefix(text, "#") {
		return
	}
	m := exports.FindStringSubmatch(text)
	if m == nil || strings.ContainsAny(m[2], "`;&|") || strings.Contains(m[2], "$(") {
		d.note("%%environment: %s: it is no plain value", short(text))
		return
	}
	value := strings.Trim(m[2], `"'`)
	fmt.Fprintf(b, "ENV %s=%s\n", m[1], `"`+strings.ReplaceAll(value, `"`, `\"`)+`"`)
}
