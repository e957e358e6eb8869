package scaffold

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/spec"
)

// compose converts a compose file with one service.
func compose(d *draft, file string, data []byte, _ func(string) bool) error {
	tree, err := spec.Tree(file, data)
	if err != nil {
		return err
	}
	services := mapping(tree["services"])
	if len(services) != 1 {
		return fmt.Errorf("%w: %s", errSeveral, strings.Join(slices.Sorted(maps.Keys(services)), ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		if key != "services" && key != "version" && key != "name" && !strings.HasPrefix(key, "x-") {
			d.foreign(key, "")
		}
	}
	for name, service := range services {
		d.job.Name = name
		keys := mapping(service)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			d.serviceKey(key, keys[key])
		}
	}
	d.workVolume()
	return nil
}

func (d *draft) serviceKey(key string, v any) {
	switch key {
	case "image":
		if d.job.Build == nil {
			d.image(scalar(v))
		}
	case "build":
		d.job.Image = ""
		d.job.Build = &spec.Build{Context: scalar(v)}
		if keys := mapping(v); keys != nil {
			*d.job.Build = spec.Build{Context: scalar(keys["context"]), Dockerfile: scalar(keys["dockerfile"]), Args: pairs(keys["args"])}
			if d.job.Build.Context == "" {
				d.job.Build.Context = "."
			}
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				if !slices.Contains([]string{"context", "dockerfile", "args"}, k) {
					d.note("build.%s: it is left out", k)
				}
			}
		}
	case "command":
		d.job.Run = command(v)
	case "entrypoint":
		if d.job.Entrypoint = command(v); d.job.Entrypoint == nil {
			d.job.Entrypoint = &spec.Command{Argv: []string{}}
		}
	case "environment":
		for key, value := range pairs(v) {
			d.env(key, value)
		}
	case "env_file":
		d.note("env_file: give it to the command: `bee run --env-file FILE`")
	case "working_dir":
		d.job.Workdir = scalar(v)
	case "container_name":
		d.job.Name = scalar(v)
	case "labels":
		if all := pairs(v); len(all) > 0 {
			d.job.Labels = all
		}
	case "platform":
		d.job.Platform = scalar(v)
	case "user":
		d.user(key, scalar(v))
	case "gpus":
		d.gpus(key, scalar(v))
	case "cpus":
		d.cores(key, scalar(v))
	case "mem_limit":
		d.memory(key, scalar(v), "")
	case "volumes":
		d.serviceVolumes(v)
	case "deploy":
		d.deploy(mapping(v))
	case "tty", "stdin_open", "init", "restart", "pull_policy": // which change nothing of the job
	default:
		d.foreign(key, scalar(v))
	}
}

func (d *draft) serviceVolumes(v any) {
	for _, e := range list(v) {
		keys := mapping(e)
		if keys == nil {
			d.volumeOption("volumes", scalar(e))
			continue
		}
		if scalar(keys["type"]) != "bind" {
			d.note("volumes %s: only binds can be converted", short(scalar(keys["source"])))
			continue
		}
		d.mount("volumes", scalar(keys["source"]), scalar(keys["target"]), scalar(keys["read_only"]) == "true")
	}
}

// deploy converts the limits and devices of a service.
func (d *draft) deploy(keys map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if key != "resources" {
			d.foreign(key, scalar(keys[key]))
			continue
		}
		resources := mapping(keys[key])
		for _, which := range []string{"reservations", "limits"} {
			asked := mapping(resources[which])
			for _, k := range slices.Sorted(maps.Keys(asked)) {
				d.resource(k, asked[k])
			}
		}
	}
}

// resource converts a limit or reservation of a service.
func (d *draft) resource(key string, v any) {
	switch key {
	case "cpus":
		d.cores(key, scalar(v))
	case "memory":
		d.memory(key, scalar(v), "")
	case "devices":
		for _, e := range list(v) {
			count := scalar(mapping(e)["count"])
			if count == "" {
				count = "all"
			}
			d.gpus(key, count)
		}
	default:
		d.foreign(key, scalar(v))
	}
}

// command is a shell text or an argument vector, or nil.
func command(v any) *spec.Command {
	if words := list(v); len(words) > 0 {
		c := &spec.Command{}
		for _, w := range words {
			c.Argv = append(c.Argv, scalar(w))
		}
		return c
	}
	if text := scalar(v); strings.TrimSpace(text) != "" {
		return &spec.Command{Shell: text}
	}
	return nil
}

func mapping(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// scalar is the text of a scalar, or "".
func scalar(v any) string {
	switch v.(type) {
	case nil, map[string]any, []any:
		return ""
	}
	return fmt.Sprint(v)
}

// pairs reads a mapping, or a list of KEY=VALUE.
func pairs(v any) map[string]string {
	all := map[string]string{}
	for key, value := range mapping(v) {
		all[key] = scalar(value)
	}
	for _, e := range list(v) {
		key, value, _ := strings.Cut(scalar(e), "=")
		all[key] = value
	}
	return all
}
