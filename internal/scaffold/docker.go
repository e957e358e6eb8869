package scaffold

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/spec"
	"mvdan.cc/sh/v3/shell"
)

// Options of `docker run` without a value. All others have one.
var (
	dockerBooleans = []string{"rm", "interactive", "tty", "detach", "init", "privileged", "read-only", "publish-all", "no-healthcheck", "oom-kill-disable", "sig-proxy", "quiet", "disable-content-trust", "use-api-socket"} // a table
	dockerLetters  = map[byte]string{'i': "interactive", 't': "tty", 'd': "detach", 'P': "publish-all", 'q': "quiet"}                                                                                                        // a table
	dockerValues   = map[byte]string{'e': "env", 'v': "volume", 'w': "workdir", 'p': "publish", 'u': "user", 'm': "memory", 'h': "hostname", 'l': "label", 'c': "cpu-shares", 'a': "attach"}                                 // a table
)

// dockerLine converts a file with one `docker run` command.
func dockerLine(d *draft, file string, data []byte, _ func(string) bool) error {
	text := continued.ReplaceAllString(string(data), " ")
	lines := dockerRun.FindAllStringIndex(text, -1)
	if len(lines) > 1 {
		return fmt.Errorf("it has %d `docker run` commands, and a Beefile has one", len(lines))
	}
	line, _, _ := strings.Cut(text[lines[0][0]:], "\n")
	line = strings.NewReplacer("$(pwd)", "$PWD", "`pwd`", "$PWD", "$(id -u)", "$UID", "$(id -g)", "$GID").Replace(strings.TrimLeft(line, " \t$"))
	words, err := shell.Fields(line, unexpanded)
	if err != nil {
		return fmt.Errorf("read the command line: %w", err)
	}
	words = words[slices.Index(words, "run")+1:]
	d.job.Name = nameOf(file)
	return d.dockerWords(words)
}

// unexpanded leaves a variable as it is written.
func unexpanded(name string) string {
	if name == "IFS" { // by which words are parted
		return " \t\n"
	}
	return "${" + name + "}"
}

// dockerWords converts what follows `docker run`.
func (d *draft) dockerWords(words []string) error {
	for len(words) > 0 && strings.HasPrefix(words[0], "-") && words[0] != "-" {
		word := words[0]
		words = words[1:]
		if word == "--" {
			break
		}
		var name, value string
		given := false
		if long, is := strings.CutPrefix(word, "--"); is {
			name, value, given = strings.Cut(long, "=")
			if slices.Contains(dockerBooleans, name) {
				d.dockerOption(name, "")
				continue
			}
		} else {
			letters := word[1:]
			for letters != "" && dockerLetters[letters[0]] != "" {
				d.dockerOption(dockerLetters[letters[0]], "")
				letters = letters[1:]
			}
			if letters == "" {
				continue
			}
			if name = dockerValues[letters[0]]; name == "" {
				return fmt.Errorf("docker has no option -%c", letters[0])
			}
			value = strings.TrimPrefix(letters[1:], "=")
			given = value != ""
		}
		if !given {
			if len(words) == 0 {
				return fmt.Errorf("the option %s lacks its value", word)
			}
			value, words = words[0], words[1:]
		}
		d.dockerOption(name, value)
	}
	if len(words) == 0 {
		return errNoImage
	}
	d.image(words[0])
	if len(words) > 1 {
		d.job.Run = &spec.Command{Argv: words[1:]}
	}
	d.workVolume()
	return nil
}

func (d *draft) dockerOption(name, value string) {
	option := "--" + name
	switch name {
	case "rm", "interactive", "tty", "detach", "init", "quiet", "sig-proxy", "attach", "pull", "no-healthcheck": // which change nothing of the job
	case "name":
		d.job.Name = value
	case "env":
		key, text, is := strings.Cut(value, "=")
		if !is {
			d.note("%s %s: the caller's value is given by `bee run -e %s`", option, short(value), short(value))
			return
		}
		d.env(key, text)
	case "env-file":
		d.note("%s %s: give it to the command: `bee run --env-file %s`", option, short(value), short(value))
	case "volume":
		d.volumeOption(option, value)
	case "mount":
		d.mountOption(value)
	case "workdir":
		d.job.Workdir = value
	case "entrypoint":
		d.job.Entrypoint = &spec.Command{Argv: []string{}}
		if value != "" {
			d.job.Entrypoint.Argv = []string{value}
		}
	case "gpus":
		d.gpus(option, strings.Trim(value, `"`))
	case "cpus":
		d.cores(option, value)
	case "memory":
		d.memory(option, value, "")
	case "platform":
		d.job.Platform = value
	case "user":
		d.user(option, value)
	case "label":
		d.label(value)
	case "shm-size", "ipc":
		d.note("%s %s: leave it out: containers have the hosts' shared memory", option, value)
	default:
		d.foreign(option, value)
	}
}

func (d *draft) label(text string) {
	if d.job.Labels == nil {
		d.job.Labels = map[string]string{}
	}
	key, value, _ := strings.Cut(text, "=")
	d.job.Labels[key] = value
}

// mountOption converts --mount type=bind,source=…,target=….
func (d *draft) mountOption(text string) {
	fields := map[string]string{}
	for _, f := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(f, "=")
		fields[strings.ToLower(key)] = value
	}
	first := func(keys ...string) string {
		for _, k := range keys {
			if v, is := fields[k]; is {
				return v
			}
		}
		return ""
	}
	if fields["type"] != "bind" {
		d.note("--mount %s: only binds can be converted", short(text))
		return
	}
	ro, readOnly := fields["readonly"]
	if _, is := fields["ro"]; is {
		readOnly = true
	}
	d.mount("--mount", first("source", "src"), first("target", "destination", "dst"), readOnly && ro != "false")
}

// errSeveral is for files that describe more than one job.
var errSeveral = errors.New("it has several services, and a Beefile is one job")
