package prefix

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// PathError says that a command names a path that is another one on the bare host.
type PathError struct{ Path string }

func (e *PathError) Error() string {
	return fmt.Sprintf("the command names %s, which the bare host has not, or has as another file", e.Path)
}

// Command translates a command of a container to one of the host. A script that names a
// place or a file of the image by its path is refused with a *PathError, as the host's would
// be used in its stead.
func (p *Prefix) Command(args, env []string, dir string) (hostArgs, hostEnv []string, hostDir string, err error) {
	if hostDir, err = p.workdir(dir); err != nil {
		return nil, nil, "", err
	}
	hostEnv = p.environment(env)
	hostArgs = slices.Clone(args)
	for i, a := range args {
		switch {
		case i == 0:
			hostArgs[0], err = p.command(a)
		case strings.ContainsAny(a, " \t\n") || strings.Contains(a, sentImage):
			hostArgs[i], err = p.script(a)
		default:
			hostArgs[i] = p.argument(a)
		}
		if err != nil {
			return nil, nil, "", err
		}
	}
	return hostArgs, hostEnv, hostDir, nil
}

// command is the program of a command. A name without a slash is looked up in bin/.
func (p *Prefix) command(name string) (string, error) {
	if !path.IsAbs(name) {
		return name, nil
	}
	if host, is := p.placeOf(name); is {
		return host, nil
	}
	if p.host {
		return name, nil
	}
	to, err := p.program(name)
	if errors.Is(err, fs.ErrNotExist) { // the host's is another one
		return filepath.Join(p.tree, name), nil
	}
	return to, err
}

func (p *Prefix) workdir(dir string) (string, error) {
	if dir == "" || path.Clean(dir) == "/" {
		return "/", nil
	}
	if host, is := p.placeOf(dir); is {
		return host, nil
	}
	if p.host || slices.Contains([]string{"tmp", "dev", "proc", "sys"}, first(dir)) {
		return dir, nil
	}
	return "", &PathError{path.Clean(dir)}
}

// placeOf is a path below one of the places, on the host.
func (p *Prefix) placeOf(inside string) (string, bool) {
	clean := path.Clean(inside)
	for _, at := range p.places {
		if rest, is := strings.CutPrefix(clean, at.inside); is && (rest == "" || rest[0] == '/' || at.inside == "/") {
			return filepath.Join(at.host, rest), true
		}
	}
	return "", false
}

// environment is that of a process on the host.
func (p *Prefix) environment(env []string) []string {
	out := make([]string, 0, len(env)+len(p.own))
	set := map[string]bool{}
	for _, e := range env {
		key, value, _ := strings.Cut(e, "=")
		set[key] = true
		switch {
		case key == "PATH" && !p.host:
			value = filepath.Join(p.dir, "bin")
		case key == "LD_LIBRARY_PATH" && !p.host: // lib/ has them; the host's own programs must not
			continue
		case key == "SHELL":
		case strings.Contains(value, sentImage):
			value = p.received(value)
		default:
			parts := strings.Split(value, ":")
			for i := range parts {
				parts[i] = p.value(parts[i])
			}
			value = strings.Join(parts, ":")
		}
		out = append(out, key+"="+value)
	}
	for _, e := range p.own {
		if key, _, _ := strings.Cut(e, "="); !set[key] {
			out = append(out, e)
		}
	}
	return out
}

// argument is a word of a command: a path, or an option with one.
func (p *Prefix) argument(a string) string {
	if option, value, is := strings.Cut(a, "=/"); is && !path.IsAbs(a) {
		return option + "=" + p.value("/"+value)
	}
	return p.value(a)
}

// value is a path of the image or of a place as the host has it. All else is left as it is.
func (p *Prefix) value(v string) string {
	if !path.IsAbs(v) {
		return v
	}
	if host, is := p.placeOf(v); is {
		return host
	}
	if p.host || shared(v) {
		return v
	}
	host, info, err := p.in(v)
	if err != nil {
		return v
	}
	if info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		if to, err := p.program(v); err == nil {
			return to
		}
	}
	return host
}

// shared reports whether a path is meant to be the host's: its devices, its shell.
func shared(v string) bool {
	v = path.Clean(v)
	return v == "/" || v == "/bin/sh" || v == "/usr/bin/env" || slices.Contains([]string{"tmp", "dev", "proc", "sys"}, first(v))
}

func first(v string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(v), "/"), "/")
	return name
}

// inScript finds what may be an absolute path in a script.
var inScript = regexp.MustCompile("(?:^|[\\s\"'`=:;,|&(<>{])(/[A-Za-z0-9_.+@%~/-]+)") // a table

// names returns a path that a script names and that is another one on the host, or "".
func (p *Prefix) names(script string) string {
	for _, m := range inScript.FindAllStringSubmatch(script, -1) {
		if _, is := p.placeOf(m[1]); is {
			return m[1]
		}
		if p.host || shared(m[1]) {
			continue
		}
		if _, _, err := p.in(m[1]); err == nil {
			return m[1]
		}
	}
	return ""
}
